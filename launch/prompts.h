// Prompts as users give them: a text, a file, token ids, or a batch of JSON lines.
#pragma once

#include "tp/token_id.h"

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// One prompt, as text or as ids.
struct Prompt {
  std::string text;
  std::optional<std::vector<TokenId>> ids{};
  // Of a line of a batch:
  nlohmann::json fields = nlohmann::json::object();  // what it says beyond the flags, see batch_fields.h
  nlohmann::json id{};                               // the user's own name for it, repeated in the output
  std::string error{};                               // why it cannot be a request; the others are served
};

// A path "-" is standard input in all of these.

// The whole file as one prompt. Throws RequestError.
Prompt read_prompt_file(const std::string& path);

// A JSON list of token ids, or an object with one in `ids`. Throws RequestError naming the file.
std::vector<TokenId> read_token_file(const std::string& path);

// The requests in a file of JSON lines, in order; empty lines are left out, and a line that is no request has
// an error. Throws RequestError if the file cannot be read or has no lines at all.
std::vector<Prompt> read_batch(const std::string& path);

}  // namespace tp

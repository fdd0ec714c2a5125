// Prompts as users give them: a file that is one, or token ids.
#pragma once

#include "tp/token_id.h"

#include <string>
#include <vector>

namespace tp {

// A path "-" is standard input in all of these.

// What an error calls it: "standard input", or the path.
std::string name_of_input(const std::string& path);

// The whole file. Throws RequestError.
std::string read_prompt_file(const std::string& path);

// A JSON list of token ids, or an object with one in `ids`. Throws RequestError naming the file.
std::vector<TokenId> read_token_file(const std::string& path);

}  // namespace tp

// Inputs of the commands for encoders: texts, or token ids.
#pragma once

#include "launch/options/prompts.h"

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

struct TextInputFlags {
  std::vector<std::string> prompts;
  std::string batch_file;
  std::string token_file;

  void add_to(CLI::App& command);
  // Throws CLI::ValidationError if there is not exactly one kind of input.
  void require_one() const;
  // Reads the inputs. Throws RequestError.
  std::vector<BatchText> read() const;
};

// --tokens: a file for read_input_file.
CLI::Option* add_token_file_option(CLI::App& command, std::string& file);

// Returns the request with an input's given token ids, or encodes its text with `encode`. Errors name the
// input.
Request encode_input(const BatchText& input, const std::function<Request(const std::string&)>& encode);

// Shortens the prompt to `longest` tokens, but keeps a control token at the end.
void truncate(Request& input, std::size_t longest, const std::function<bool(TokenId)>& is_special);

}  // namespace tp

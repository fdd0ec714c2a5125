// Prompts from users: a text file, or token ids.
#pragma once

#include "tp/request.h"
#include "tp/token_id.h"

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// In all of these functions, the path "-" is standard input.

// Returns the input's name for errors: "standard input", or the path.
std::string name_of_input(const std::string& path);

// Returns the whole file. Throws RequestError if it can't be read or has more than `max_bytes` bytes.
std::string read_prompt_file(const std::string& path,
                             std::size_t max_bytes = std::numeric_limits<std::size_t>::max());

// Calls use(line, number from 1 on) for every line that is not blank, without its newline. Keeps one line in
// memory. Throws RequestError if the file cannot be read, and what `use` throws.
void for_each_line_of(const std::string& path,
                      const std::function<void(const std::string&, std::size_t)>& use);

// Reads a JSON list of token ids, or an object with a list in `ids`. Throws RequestError with the file's
// name.
std::vector<TokenId> read_token_file(const std::string& path);
// Reads the file like read_token_file, into a request that asks for nothing yet. An object may also contain
// `token_type_ids` and `global_attention_mask`, lists of small numbers, one per token, and `decoder_ids`.
Request read_input_file(const std::string& path);

// A line of a batch of texts: a JSON string, an object with `text`, or an object for read_input_file. Any
// other line is itself the text. Throws RequestError with the line's number.
struct BatchText {
  std::string where{};  // place of the line, for errors
  std::optional<std::string> text{};
  Request tokens{};  // a prompt of token ids, used if there is no text
};
std::vector<BatchText> read_texts(const std::string& path);

}  // namespace tp

// Prompts as users give them: a file that is one, or token ids.
#pragma once

#include "runtime/text/embedder.h"
#include "tp/token_id.h"

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// A path "-" is standard input in all of these.

// What an error calls it: "standard input", or the path.
std::string name_of_input(const std::string& path);

// The whole file. Throws RequestError, also for one with more bytes.
std::string read_prompt_file(const std::string& path,
                             std::size_t most_bytes = std::numeric_limits<std::size_t>::max());

// Calls use(line, its number from 1 on) for every line that is not blank, without its end. Keeps one line in
// memory. Throws RequestError if the file cannot be read, and what `use` throws.
void for_each_line_of(const std::string& path,
                      const std::function<void(const std::string&, std::size_t)>& use);

// A JSON list of token ids, or an object with one in `ids`. Throws RequestError naming the file.
std::vector<TokenId> read_token_file(const std::string& path);
// The same; an object may also have `token_type_ids` and `global_attention_mask`, lists of small numbers, one
// for each token, and `decoder_ids`.
EncoderInput read_input_file(const std::string& path);

// One line of a batch of texts: a JSON string, an object with `text`, or as the object above; any other line
// is the text itself. Throws RequestError naming the line.
struct BatchText {
  std::string where{};  // the line, for errors
  std::optional<std::string> text{};
  EncoderInput tokens{};  // without a text
};
std::vector<BatchText> read_texts(const std::string& path);

}  // namespace tp

#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::testing {

// Decodes like the decoders of `tokenizers`, on whole lists of tokens: each step makes a new list from the
// previous one, and the text is the last list's concatenation. `decoder` is the value of "decoder" in a
// tokenizer.json.
std::string naive_decode(const nlohmann::json& decoder, const std::vector<std::string>& tokens);

}  // namespace tp::testing

#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::testing {

// What the decoders of `tokenizers` do, on whole lists of tokens: each step makes a new list of the last, and
// the text is the last list put together. `decoder` is the value of "decoder" of a tokenizer.json.
std::string naive_decode(const nlohmann::json& decoder, const std::vector<std::string>& tokens);

}  // namespace tp::testing

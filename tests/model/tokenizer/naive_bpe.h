#pragma once

#include "tp/token_id.h"

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::testing {

// BPE without regard to time: of all neighbours that can merge, merges the pair whose merge comes first in
// the list (the leftmost of equal pairs), until no pair is left. `model` is the value of "model" in a
// tokenizer.json with byte_fallback. `text` is well-formed.
std::vector<TokenId> naive_bpe(const nlohmann::json& model, std::string_view text);

}  // namespace tp::testing

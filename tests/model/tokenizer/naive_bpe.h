#pragma once

#include "tp/token_id.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::testing {

// BPE without regard to time: of all neighbours that can merge, merges the pair whose merge comes first in
// the list (the leftmost of equal pairs), until no pair is left. `model` is the value of "model" in a
// tokenizer.json with byte_fallback. `text` is well-formed.
std::vector<TokenId> naive_bpe(const nlohmann::json& model, std::string_view text);

// Merges the bytes of a word: of all neighbours whose union is a token, the pair whose union has the lowest
// rank (the leftmost of equal pairs), until no pair is left. Returns the ranks of the parts.
std::vector<TokenId> merged_by_rank(const std::map<std::string, TokenId>& ranks, const std::string& word);

}  // namespace tp::testing

#pragma once

#include "model/tokenizer/steps/added_tokens.h"
#include "model/tokenizer/steps/normalizer.h"

#include <optional>
#include <string>
#include <string_view>

namespace tp {

// A flag of an added token that another format cannot store.
struct LostFlag {
  std::string_view flag;  // "lstrip", "rstrip", "single_word" or "normalized"
  std::string token;
  bool is_set;  // whether the original token has the flag
};

// Finds a flag of `original` that differs in `copy` and changes how texts are cut. The texts have white
// space, letters and the other case beside and inside the token. `normalizer`: the original tokenizer's
// normalizer.
std::optional<LostFlag> find_lost_flag(const AddedTokens& original, const AddedTokens& copy,
                                       const Normalizer& normalizer);

}  // namespace tp

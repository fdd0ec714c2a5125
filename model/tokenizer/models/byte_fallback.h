#pragma once

#include "model/tokenizer/text/vocabulary.h"

#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace tp {

// The tokens <0x00> to <0xFF>, which stand for the bytes of characters outside of a vocabulary.
class ByteFallback {
 public:
  // Has no tokens, and falls back to nothing.
  ByteFallback() = default;
  explicit ByteFallback(const Vocabulary& vocabulary);

  // Appends the tokens of all bytes; false, and appends nothing, when one of them has no token.
  bool append(std::string_view text, std::vector<TokenId>& out) const;

 private:
  std::array<std::optional<TokenId>, 256> tokens_;
};

}  // namespace tp

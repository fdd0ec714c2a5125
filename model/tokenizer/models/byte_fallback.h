#pragma once

#include "model/tokenizer/text/vocabulary.h"

#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace tp {

// The tokens <0x00> to <0xFF>, which stand for the bytes of characters outside the vocabulary.
class ByteFallback {
 public:
  // Without tokens: append() always returns false.
  ByteFallback() = default;
  explicit ByteFallback(const Vocabulary& vocabulary);

  // Appends the tokens of all bytes. If a byte has no token, appends nothing and returns false.
  bool append(std::string_view text, std::vector<TokenId>& out) const;

 private:
  std::array<std::optional<TokenId>, 256> tokens_;
};

}  // namespace tp

#pragma once

#include "model/tokenizer/text/utf8.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace tp {

// The number of characters in a UTF-8 text.
inline std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;  // first byte of a character
  }));
}

// Counts the place, in characters, at which each token begins in the text. Tokens within one character have
// the same place.
class TokenPlaces {
 public:
  // The place of the next token, which has these bytes.
  std::size_t place_of(std::string_view bytes) {
    const std::size_t place = characters_;
    pending_ += bytes;
    const std::size_t whole = pending_.size() - utf8::incomplete_tail(pending_);
    std::string text;
    utf8::append_repaired(text, std::string_view(pending_).substr(0, whole));
    pending_.erase(0, whole);
    characters_ += count_characters(text);
    return place;
  }

 private:
  std::size_t characters_ = 0;
  std::string pending_{};  // bytes of an incomplete character
};

}  // namespace tp

#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace tp {

// The characters of a text in UTF-8.
inline std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;  // first byte of a character
  }));
}

}  // namespace tp

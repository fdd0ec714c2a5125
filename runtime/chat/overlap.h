// Finds the beginning of a marker at the end of a text that arrives in pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace tp {

// The size of the longest suffix of `text` that is a proper prefix of `marker`, which must not be empty.
inline std::size_t overlap(std::string_view text, std::string_view marker) {
  for (std::size_t size = std::min(text.size(), marker.size() - 1); size > 0; --size) {
    if (text.substr(text.size() - size) == marker.substr(0, size)) return size;
  }
  return 0;
}

}  // namespace tp

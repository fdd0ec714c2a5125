// How much of a text that comes in pieces may be the beginning of a marker.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace tp {

// The length of the longest end of `text` with which `marker`, which is not empty, may begin, without all of
// it.
inline std::size_t overlap(std::string_view text, std::string_view marker) {
  for (std::size_t size = std::min(text.size(), marker.size() - 1); size > 0; --size) {
    if (text.substr(text.size() - size) == marker.substr(0, size)) return size;
  }
  return 0;
}

}  // namespace tp

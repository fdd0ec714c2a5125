#pragma once

#include <cstddef>

namespace tp {

// The bytes [begin, end) of a text.
struct Span {
  std::size_t begin;
  std::size_t end;

  bool empty() const { return begin == end; }
  friend bool operator==(const Span&, const Span&) = default;
};

}  // namespace tp

// Loops over numbers that are known at compile time. For simd/*.cc only: everything is local to the
// translation unit.
#pragma once

#include <cstddef>

namespace tp::kernels {
namespace {

// A compile-time number. for_known calls body(number) for the numbers in [begin, end).
template <std::size_t kNumber>
struct Known {
  static constexpr std::size_t value = kNumber;
};
template <std::size_t kBegin, std::size_t kEnd, class Body>
[[gnu::always_inline]] inline void for_known(const Body& body) {
  if constexpr (kBegin < kEnd) {
    body(Known<kBegin>{});
    for_known<kBegin + 1, kEnd>(body);
  }
}

}  // namespace
}  // namespace tp::kernels

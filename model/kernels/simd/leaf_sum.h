// Sums that do not depend on their order; see simd.h for the rules.
#pragma once

#include <cstddef>

namespace tp::kernels {
namespace {

// Rounds to a multiple of 2^-30: the unit in the last place of doubles from 2^22 to 2^23, in the middle of
// which this is. Sums of such multiples are exact, and hence the same in any order, while they are below
// 2^23.
constexpr double kGrid = 1.5 * 4194304.0;

// The results of a leaf: the first one's replace what is there, others' are added.
[[gnu::always_inline]] inline void add_leaf(const float* results, std::size_t count, bool is_first,
                                            double* sums) {
  if (is_first) {
    for (std::size_t i = 0; i < count; ++i) sums[i] = (static_cast<double>(results[i]) + kGrid) - kGrid;
  } else {
    for (std::size_t i = 0; i < count; ++i) sums[i] += (static_cast<double>(results[i]) + kGrid) - kGrid;
  }
}

}  // namespace
}  // namespace tp::kernels

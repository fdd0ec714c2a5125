// Sums that do not depend on the order of addition; see simd.h for the rules.
#pragma once

#include <cstddef>

namespace tp::kernels {
namespace {

// Rounds to a multiple of 2^-30, which is the unit in the last place of doubles from 2^22 to 2^23; this
// number is in the middle of the range. Sums of such multiples are exact while they are below 2^23, and
// therefore equal in any order.
constexpr double kGrid = 1.5 * 4194304.0;

inline double on_grid(float result) { return (static_cast<double>(result) + kGrid) - kGrid; }

// Adds the results of a leaf to the sums. The first leaf's results replace the sums.
[[gnu::always_inline]] inline void add_leaf(const float* results, std::size_t count, bool is_first,
                                            double* sums) {
  if (is_first) {
    for (std::size_t i = 0; i < count; ++i) sums[i] = on_grid(results[i]);
  } else {
    for (std::size_t i = 0; i < count; ++i) sums[i] += on_grid(results[i]);
  }
}

// Adds 16 results of each of several leaves. `apart`: distance of leaves in `results`.
[[gnu::always_inline]] inline void add_leaves(const float* results, std::size_t apart, std::size_t leaves,
                                              bool are_first, double* sums) {
  constexpr std::size_t kResults = 16;
  double all[kResults];
  for (std::size_t i = 0; i < kResults; ++i) all[i] = are_first ? 0.0 : sums[i];
  for (std::size_t leaf = 0; leaf < leaves; ++leaf, results += apart) {
    for (std::size_t i = 0; i < kResults; ++i) all[i] += on_grid(results[i]);
  }
  for (std::size_t i = 0; i < kResults; ++i) sums[i] = all[i];
}

}  // namespace
}  // namespace tp::kernels

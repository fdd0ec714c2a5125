// The cutoff of an MLP's gates at a number of standard deviations above their mean.
#pragma once

#include "tp/tensor.h"

#include <cstddef>

namespace tp::kernels {

// sums[token] = the sum of x's elements, and the sum of their squares. The sums of each leaf's columns are
// rounded to multiples of 2^-22, so that any ranks add up the same numbers. Gates with a standard deviation
// below about 1e-4 would lose digits. leaf: columns of a leaf, of which the last one may
// have fewer; 0: all columns are one leaf. x: [tokens, columns], sums: [tokens, 2].
void sum_moments(TensorView<const float> x, std::size_t leaf, TensorView<double> sums);

// x = max(0, x - mean - deviations * (standard deviation)). sums: as in sum_moments, over all `size` columns,
// [tokens, 2]. x: [tokens, columns].
void cut_off(TensorView<const float> sums, std::size_t size, float deviations, TensorView<float> x);

}  // namespace tp::kernels

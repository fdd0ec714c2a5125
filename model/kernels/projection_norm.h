// RMS norms of whole projections whose heads are divided among ranks.
#pragma once

#include "tp/tensor.h"

#include <cstddef>
#include <span>

namespace tp::kernels {

// Sums of squares are multiples of 2^-22. Below this limit, sums of such multiples are exact, and therefore
// equal in any order; 4096 elements may have a root mean square of 512. If all elements are so small that a
// step of 2^-22 matters, eps dominates the divisor.
constexpr double kExactSquaresBelow = 1073741824.0;  // 2^30

// sums[token] = the sum over x's heads of their sums of squares, each rounded separately to a multiple of
// 2^-22. x: [tokens, heads * head_dim], sums: [tokens, 1].
void sum_squares(TensorView<const float> x, std::size_t head_dim, TensorView<double> sums);

// x = x / sqrt(sum / size + eps) * gain. x: [tokens, columns]; sums: sums of squares of whole projections of
// `size` elements, [tokens, 1]; gain: [columns].
void scale_to_norm(TensorView<float> x, TensorView<const float> sums, std::size_t size, float eps,
                   std::span<const float> gain);

}  // namespace tp::kernels

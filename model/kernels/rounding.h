// Rounding to numbers of few bits, for models whose results include it.
#pragma once

#include "tp/tensor.h"

#include <cstddef>

namespace tp::kernels {

// The nearest number with a sign, 4 bits of exponent and 3 of mantissa: multiples of 2^-9 up to 2^-6, then
// eight per power of two, up to 448. Ties go to an even mantissa. Larger numbers become 448.
float round_to_e4m3(float x);
// The nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6 with x's sign. Ties go to an even mantissa: 0, 1, 2 and 4.
float round_to_e2m1(float x);

// The smallest power of two that is at least x, which is above 0 and normal.
float power_of_two_above(float x);

// Sizes of blocks, in elements.
constexpr std::size_t kRoundedBlock = 32;
constexpr std::size_t kScaledFp4Block = 16;

// These functions round each block of a row to scale * number, where `highest` is the block's largest
// magnitude. They leave x unchanged if `size` is not a multiple of the block. x: [tokens, vectors * size].
// Source: DeepSeek-AI, DeepSeek-V4.1, 2026.

// e4m3, with the scale power_of_two_above(highest / 448) for each kRoundedBlock elements.
void round_blocks_to_fp8(std::size_t size, TensorView<float> x);
// e2m1, with the scale power_of_two_above(highest / 6) for each kRoundedBlock elements.
void round_blocks_to_fp4(std::size_t size, TensorView<float> x);
// e2m1, with the scale round_to_e4m3(highest / 6), which is at least 2^-9, for each kScaledFp4Block elements.
void round_blocks_to_scaled_fp4(std::size_t size, TensorView<float> x);

}  // namespace tp::kernels

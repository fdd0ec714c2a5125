#pragma once

#include "model/kernels/packed_weight.h"
#include "model/kernels/simd/vector/activation.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

// y = x . weight^T. x: [tokens, in_features], y: [tokens, out_features].
//
// f32, f16 and bf16: in float32 arithmetic. Where the machine is fast at multiplying bf16, more than 2
// activations times bf16 weights are rounded to bf16 first. int8 and int4: activations are quantized to 8
// bits in groups of 32, and groups are multiplied in integers. On a matrix unit more than 4 tokens times bf16
// weights, 12 times int8 and int4 and 16 times f16 are products of bf16 with float32 sums: f16 weights keep
// all their bits, as a sum of two bf16; elements of int8 and int4 times their scale are rounded to bf16.
// Where there are only portable loops, more than 8 tokens (int8 and int4: 16) go to OpenBLAS' sgemm with
// widened rows of weights.
//
// With PackedLayout::same_bits, every number of tokens takes the same path: bf16 tiles or rounded pairs where
// the machine has them, f32 and f16 float32 arithmetic, int8 and int4 integers.
//
// `scratch` holds matmul_scratch(...) floats for the converted operands.
void matmul(TensorView<const float> x, const PackedView& weight, TensorView<float> scratch,
            TensorView<float> y);
// The same for a weight with leaves: y is the sum of the leaves' float32 results, each rounded to a multiple
// of 2^-30, so that sums of such y are exact below 2^23.
void matmul(TensorView<const float> x, const PackedView& weight, TensorView<float> scratch,
            TensorView<double> y);

// Loads OpenBLAS where matmuls may use it, so that failing to load it (ConfigError) is noticed before the
// first step. To be called after omp_set_num_threads. `same_bits`: of all weights.
void prepare_matmul(bool same_bits = false);

// Activations rounded to bf16, as tiles of a matrix unit: [rows, columns] in tiled_words(rows, columns).
struct TiledRows {
  std::uint32_t* words;
  std::size_t rows;
  std::size_t columns;
};
std::size_t tiled_words(std::size_t rows, std::size_t columns);

// Whether a matmul of this many tokens runs on a matrix unit, so that x may be in tiles already.
bool takes_tiles(const PackedLayout& weight, std::size_t tokens);
void matmul(const TiledRows& x, const PackedView& weight, TensorView<float> scratch, TensorView<float> y);
void matmul(const TiledRows& x, const PackedView& weight, TensorView<float> scratch, TensorView<double> y);

// Whether a matmul can apply the gate itself: it runs on a matrix unit, in panels of either gates or ups.
bool can_gate(const PackedLayout& weight, std::size_t tokens);

// y = activation(gates) * ups, with both rows of one weight, gates first: results that are not written and
// read again where can_gate. x: [tokens, in_features], weight: [2 * size, in_features], y: [tokens, size].
// `scratch` holds matmul_gated_scratch(...) floats.
void matmul_gated(TensorView<const float> x, const PackedView& weight, Activation activation,
                  TensorView<float> scratch, TensorView<float> y);
// The same with results in tiles, where can_gate; `size` is a multiple of 32.
void matmul_gated(TensorView<const float> x, const PackedView& weight, Activation activation,
                  TensorView<float> scratch, const TiledRows& y);

// Floats of scratch that a matmul of at most this many tokens needs, with at most as many threads as OpenMP
// has now.
std::size_t matmul_scratch(const PackedLayout& weight, std::size_t tokens);
std::size_t matmul_gated_scratch(const PackedLayout& weight, std::size_t tokens);

// Matmuls of more tokens than this all take the same path.
inline constexpr std::size_t kMostFewTokens = 16;

}  // namespace tp::kernels

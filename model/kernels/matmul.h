#pragma once

#include "model/kernels/packed_weight.h"
#include "model/kernels/simd/vector/activation.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

// y = x . weight^T. x: [tokens, in_features], y: [tokens, out_features].
//
// f32, f16 and bf16 use float32 arithmetic. If the machine multiplies bf16 fast, activations of more than 2
// tokens are first rounded to bf16 for products with bf16 weights. int8 and int4: activations are quantized
// to 8 bits in groups of 32, and groups are multiplied in integers. On a matrix unit, more than 4 tokens
// times bf16 weights, 12 times int8 and int4, and 16 times f16 are products of bf16 with float32 sums. f16
// weights then keep all bits, as sums of two bf16; elements of int8 and int4 times their scales are rounded
// to bf16. If there are only portable kernels, more than 8 tokens (int8 and int4: 16) use OpenBLAS' sgemm
// with widened rows of weights.
//
// With PackedLayout::same_bits, any number of tokens uses the same path: bf16 tiles or rounded pairs if the
// machine has them; float32 arithmetic for f32 and f16; integers for int8 and int4.
//
// `scratch` must have matmul_scratch(...) floats, for converted operands.
void matmul(TensorView<const float> x, const PackedView& weight, TensorView<float> scratch,
            TensorView<float> y);
// matmul for a weight with leaves. y is the sum of the leaves' float32 results, each rounded to a multiple of
// 2^-30, so that sums of these y are exact below 2^23.
void matmul(TensorView<const float> x, const PackedView& weight, TensorView<float> scratch,
            TensorView<double> y);

// Loads OpenBLAS if matmuls may use it, so that errors (ConfigError) are noticed before the first step. Call
// it after omp_set_num_threads. `same_bits`: whether the layouts of all weights have same_bits.
void prepare_matmul(bool same_bits = false);

// Activations rounded to bf16, in tiles of a matrix unit: [rows, columns] in tiled_words(rows, columns).
struct TiledRows {
  std::uint32_t* words;
  std::size_t rows;
  std::size_t columns;
};
std::size_t tiled_words(std::size_t rows, std::size_t columns);

// Whether a matmul with this many tokens runs on a matrix unit, so that x may already be in tiles.
bool takes_tiles(const PackedLayout& weight, std::size_t tokens);
void matmul(const TiledRows& x, const PackedView& weight, TensorView<float> scratch, TensorView<float> y);
void matmul(const TiledRows& x, const PackedView& weight, TensorView<float> scratch, TensorView<double> y);

// Whether a matmul can apply the gate: it must run on a matrix unit, and no panel may contain both gates and
// ups.
bool can_gate(const PackedLayout& weight, std::size_t tokens);

// y = activation(gates) * ups, which are rows of one weight, gates first. If can_gate, intermediate results
// are not written to memory. x: [tokens, in_features], weight: [2 * size, in_features], y: [tokens, size].
// `scratch` must have matmul_gated_scratch(...) floats.
void matmul_gated(TensorView<const float> x, const PackedView& weight, Activation activation,
                  TensorView<float> scratch, TensorView<float> y);
// matmul_gated with results in tiles. Requires can_gate; `size` must be a multiple of 32.
void matmul_gated(TensorView<const float> x, const PackedView& weight, Activation activation,
                  TensorView<float> scratch, const TiledRows& y);

// Floats of scratch for matmuls of at most this many tokens, with at most OpenMP's current number of threads.
std::size_t matmul_scratch(const PackedLayout& weight, std::size_t tokens);
std::size_t matmul_gated_scratch(const PackedLayout& weight, std::size_t tokens);

// Matmuls with more tokens than this all use the same path.
inline constexpr std::size_t kMaxFewTokens = 16;

}  // namespace tp::kernels

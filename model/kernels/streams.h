// Kernels of several residual streams, which lie side by side: [tokens, streams * size].
#pragma once

#include "tp/tensor.h"

#include <cstddef>
#include <span>

namespace tp::kernels {

constexpr std::size_t kMaxStreams = 16;

// Each stream k becomes x[k] + the sum over j of coefficients[k, j] * x[j]. coefficients: [tokens, streams *
// streams]. At most kMaxStreams streams of `size` elements.
void mix_streams(TensorView<const float> coefficients, std::size_t size, TensorView<float> streams);

// Each stream k becomes x[k] + (1 + coefficients[k]) * (y - x[0]). coefficients: [tokens, streams], y:
// [tokens, size].
void correct_streams(TensorView<const float> coefficients, TensorView<const float> y,
                     TensorView<float> streams);

// weights = scale * weights / sqrt(mean(x^2) + eps) + base for each row x of all streams. scale, base: of one
// weight, [columns of weights].
void normalize_weights(TensorView<const float> streams, float eps, std::span<const float> scale,
                       std::span<const float> base, TensorView<float> weights);

// x = factor * sigmoid(x) + addend
void sigmoid_gates(float factor, float addend, TensorView<float> x);

// out = the sum over streams of weights[s] * x[s]. weights: [tokens, streams], out: [tokens, size].
void sum_streams(TensorView<const float> weights, TensorView<const float> streams, TensorView<float> out);

// out[s] = sigmoid(sign(d) * sqrt(max(|d|, 1e-6))) * value for each stream s, with d = keys[s] . queries[s] /
// sqrt(size). If d is 0, its sign is 0, or with `zero_has_sign` that of the floating-point number. keys,
// queries, out: [tokens, streams * size], value: [tokens, size].
void gate_by_agreement(TensorView<const float> keys, TensorView<const float> queries,
                       TensorView<const float> value, bool zero_has_sign, TensorView<float> out);

// Copies the first columns of `from`, as many as `to` has.
void copy_rows(TensorView<const float> from, TensorView<float> to);

// out = the mean of all streams. out: [tokens, size].
void mean_of_streams(TensorView<const float> streams, TensorView<float> out);

// Each stream s becomes x[s] + weights[s] * y. weights: [tokens, streams], y: [tokens, size].
void add_to_streams(TensorView<const float> weights, TensorView<const float> y, TensorView<float> streams);

// Makes each token's matrix almost doubly stochastic. Its rows become softmaxes plus eps, then its columns
// are divided by their sums plus eps. Further steps divide rows, then columns. At least one step. matrices:
// [tokens, size * size]. Source: Xie et al., mHC: Manifold-Constrained Hyper-Connections, 2025.
void sinkhorn(std::size_t size, std::size_t steps, float eps, TensorView<float> matrices);

// Each stream k becomes the sum over j of matrix[j, k] * x[j], plus weights[k] * y. matrices: [tokens,
// streams * streams], weights: [tokens, streams], y: [tokens, size]. At most kMaxStreams streams.
void combine_streams(TensorView<const float> matrices, TensorView<const float> weights,
                     TensorView<const float> y, TensorView<float> streams);

// weights = the softmax over streams of weight . x[s] / sqrt(mean(x[s]^2) + eps). weight: [size], weights:
// [tokens, streams].
void attend_to_streams(TensorView<const float> streams, std::span<const float> weight, float eps,
                       TensorView<float> weights);

// x *= rms(target) / sqrt(max(mean(x^2), least)) for each row. Both [tokens, size].
void match_magnitude(TensorView<const float> target, float min, TensorView<float> x);

}  // namespace tp::kernels

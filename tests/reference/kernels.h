// Naive twins of model/kernels: one loop per index, double precision.
#pragma once

#include "tests/reference/matrix.h"

#include <cstddef>
#include <optional>
#include <span>

namespace tp::reference {

// y = x . weight^T. x: [tokens, in_features], weight: [out_features, in_features]
Matrix matmul(const Matrix& x, const Matrix& weight);

// x / sqrt(mean(x^2) + eps) * gain
Matrix rms_norm(const Matrix& x, std::span<const double> gain, double eps);

// gate / (1 + exp(-gate)) * up; gate_up: [tokens, 2 * size]
Matrix silu_multiply(const Matrix& gate_up);

void add(const Matrix& x, Matrix& y);
void add_bias(std::span<const double> bias, Matrix& y);

// Turns the pairs (i, i + head_dim / 2) of every head; angles: [tokens, head_dim / 2], `magnitude` multiplies
// cosines and sines.
Matrix rotate(const Matrix& x, const Matrix& angles, double magnitude);

// What a token at position p sees of its sequence: from max(0, p + 1 - window), to p or to the end.
struct Pattern {
  bool causal = true;
  std::optional<std::size_t> window;
};

// Whole rows of scores, then softmax. query: [tokens, heads * head_dim], the last `tokens` positions of the
// sequence; key, value: [length, kv_heads * head_dim].
Matrix attention(const Matrix& query, const Matrix& key, const Matrix& value,
                 std::span<const std::size_t> kv_of_head, std::size_t head_dim, Pattern pattern,
                 double scale);

}  // namespace tp::reference

// Reference implementations of model/kernels: one loop per index, double precision.
#pragma once

#include "model/kernels/simd/vector/activation.h"
#include "tests/reference/matrix.h"

#include <cstddef>
#include <optional>
#include <span>

namespace tp::reference {

// y = x . weight^T. x: [tokens, in_features], weight: [out_features, in_features]
Matrix matmul(const Matrix& x, const Matrix& weight);

// x / sqrt(mean(x^2) + eps) * gain for every gain.size() elements of a row
Matrix rms_norm(const Matrix& x, std::span<const double> gain, double eps);

// (x - mean(x)) / sqrt(variance(x) + eps) * gain + bias in the same way
Matrix layer_norm(const Matrix& x, std::span<const double> gain, std::span<const double> bias, double eps);

// By the textbook: x / (1 + exp(-x)), x Phi(x), its approximation, max(x, 0).
double activated(kernels::Activation activation, double x);
double gated(kernels::Activation activation, double up);
Matrix activate(kernels::Activation activation, const Matrix& x);
Matrix xielu(const kernels::Xielu& function, const Matrix& x);

// activated(gate) * up; gate_up: [tokens, 2 * size]
Matrix activate_and_multiply(kernels::Activation activation, const Matrix& gate_up);

// cap * tanh(x / cap)
Matrix softcap(double cap, const Matrix& x);

void add(const Matrix& x, Matrix& y);
void add_bias(std::span<const double> bias, Matrix& y);

// Rotates the pairs (i, i + rotary_dim / 2) of every head. angles: [tokens, rotary_dim / 2]. `magnitude`
// multiplies cosines and sines.
Matrix rotate(const Matrix& x, std::size_t head_dim, const Matrix& angles, double magnitude);

// How a sequence's scores become weights.
struct Pattern {
  bool causal = true;
  std::optional<std::size_t> window;
  std::size_t dilation = 1;
  double softcap = 0.0;                      // 0: none
  std::span<const float> alibi_slopes = {};  // [heads] or empty
  std::span<const float> sinks = {};         // [heads] or empty
  std::optional<std::size_t> chunk = {};
  std::size_t chunks_before = 0;  // earlier chunks that a token also sees

  // Whether the token at `position` sees the token at `other`.
  bool sees(std::size_t position, std::size_t other) const {
    if (causal && other > position) return false;
    if (chunk && other / *chunk > position / *chunk) return false;
    if (chunk && other / *chunk + chunks_before < position / *chunk) return false;
    const std::size_t distance = other > position ? other - position : position - other;
    return distance % dilation == 0 && (!window || distance / dilation < *window);
  }
};

// Computes whole rows of scores, then softmax. query: [tokens, heads * key_dim], the last `tokens` positions
// of the sequence; key: [length, kv_heads * key_dim], value: [length, kv_heads * value_dim].
Matrix attention(const Matrix& query, const Matrix& key, const Matrix& value,
                 std::span<const std::size_t> kv_of_head, std::size_t key_dim, const Pattern& pattern,
                 double scale);

}  // namespace tp::reference

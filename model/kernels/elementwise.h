// Kernels that treat every token, or every element, by itself.
#pragma once

#include "tp/tensor.h"

#include <span>

namespace tp::kernels {

// out = x / sqrt(mean(x^2) + eps) * gain, row by row. x, out: [tokens, hidden_size], gain: [hidden_size].
void rms_norm(TensorView<const float> x, std::span<const float> gain, float eps, TensorView<float> out);

// out = silu(gate) * up. gate_up: [tokens, 2 * size], gates first; out: [tokens, size].
void silu_multiply(TensorView<const float> gate_up, TensorView<float> out);

// y += x. Both [tokens, size].
void add(TensorView<const float> x, TensorView<float> y);

// Every row of y += bias. y: [tokens, size], bias: [size].
void add_bias(std::span<const float> bias, TensorView<float> y);

}  // namespace tp::kernels

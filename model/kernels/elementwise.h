// Kernels that process each token or each element separately.
#pragma once

#include "model/kernels/simd/vector/activation.h"
#include "model/kernels/situ.h"
#include "tp/tensor.h"

#include <span>

namespace tp::kernels {

// out = x / sqrt(mean(x^2) + eps) * gain for each vector of a row. x, out: [tokens, vectors * size], gain:
// [size].
void rms_norm(TensorView<const float> x, std::span<const float> gain, float eps, TensorView<float> out);

// out = (x - mean(x)) / sqrt(variance(x) + eps) * gain + bias; shapes as for rms_norm.
void layer_norm(TensorView<const float> x, std::span<const float> gain, std::span<const float> bias,
                float eps, TensorView<float> out);

// x = activation(x). [tokens, size]
void activate(Activation activation, TensorView<float> x);

// x = function(x). [tokens, size]
void xielu(const Xielu& function, TensorView<float> x);

// x = min(max(x, -limit), limit). [tokens, size]
void clip(float limit, TensorView<float> x);

// out = activation(gate) * up. gate_up: [tokens, 2 * size], gates first; out: [tokens, size].
void activate_and_multiply(Activation activation, TensorView<const float> gate_up, TensorView<float> out);

// out = the activation of both halves of gate_up, [tokens, 2 * size]. Overwrites gate_up.
void situ_and_multiply(const Situ& function, TensorView<float> gate_up, TensorView<float> out);

// With limits: out = min(activation(gate), limit) * clamp(up, -limit, limit), or activation(min(gate, limit))
// instead of the first factor if `limits_gate`. Overwrites gate_up.
void activate_limit_and_multiply(Activation activation, float limit, bool limits_gate,
                                 TensorView<float> gate_up, TensorView<float> out);

// x *= function(gate), where each gate scales `per_gate` adjacent elements. The function is softplus or the
// sigmoid. gate: [tokens, gates], x: [tokens, gates * per_gate].
void multiply_gates(bool softplus, TensorView<const float> gate, std::size_t per_gate, TensorView<float> x);

// x *= activation(gate). Both [tokens, size].
void multiply_activated(Activation activation, TensorView<const float> gate, TensorView<float> x);

// x *= factors. Both [tokens, size].
void multiply(TensorView<const float> factors, TensorView<float> x);

// y += factors * x for each row. x, y: [tokens, size], factors: [size].
void add_products(std::span<const float> factors, TensorView<const float> x, TensorView<float> y);

// x = cap * tanh(x / cap). [tokens, size]
void softcap(float cap, TensorView<float> x);

// x *= factor. [tokens, size]
void scale(float factor, TensorView<float> x);

// x = 0. [tokens, size]
void clear(TensorView<float> x);
void clear(TensorView<double> x);

// y += x. Both [tokens, size].
void add(TensorView<const float> x, TensorView<float> y);

// y += bias for each row. y: [tokens, size], bias: [size].
void add_bias(std::span<const float> bias, TensorView<float> y);
// add_bias for sums of leaves (see matmul). The bias is rounded like a leaf.
void add_bias(std::span<const float> bias, TensorView<double> y);
// add_bias with a bias that each row scales by its own factor. factors: [tokens].
void add_bias(std::span<const float> bias, std::span<const float> factors, TensorView<float> y);
void add_bias(std::span<const float> bias, std::span<const float> factors, TensorView<double> y);

}  // namespace tp::kernels

// Kernels for the inputs of a recurrence: a convolution, decays and strengths.
#pragma once

#include "model/kernels/recurrent_run.h"
#include "model/kernels/simd/vector/activation.h"
#include "tp/tensor.h"

#include <optional>
#include <span>

namespace tp::kernels {

// For each channel: out[token] = activation(bias + sum over j < taps of weight[j] * x[token - (taps - 1 -
// j) * dilation]); without an activation, the sum itself. x, out: [tokens, channels], weight: [taps,
// channels], bias: [channels], or empty. A state is the last rows of x: [(taps - 1) * dilation, channels].
void causal_convolution(TensorView<const float> x, TensorView<const float> weight,
                        std::span<const float> bias, std::optional<Activation> activation,
                        std::span<const RecurrentRun> runs, TensorView<float> out, std::size_t dilation = 1);

// The row of x `back` tokens before token `token` of the run, which may be in the state: the last
// `state_rows` rows of x. Null before the sequence. back <= token + state_rows.
const float* row_before(const RecurrentRun& run, std::size_t state_rows, TensorView<const float> x,
                        std::size_t token, std::size_t back);
// Advances states that are the last `state_rows` rows of x, [state_rows, columns].
void keep_last_rows(std::span<const RecurrentRun> runs, std::size_t state_rows, TensorView<const float> x);

// How decays and strengths follow from their projections. Without a floor, decay = exp(-rate * softplus(x +
// bias)); with a floor, which is negative, decay = exp(floor * sigmoid(rate * (x + bias))).
struct DeltaGates {
  float decay_floor = 0.0F;  // 0: none
  float strength_scale = 1.0F;
};
// Computes decays, and strength = strength_scale * sigmoid(strength), in place. decay: [tokens, decays],
// strength: [tokens, heads], rate, bias: [decays].
void delta_gates(const DeltaGates& gates, std::span<const float> rate, std::span<const float> bias,
                 TensorView<float> decay, TensorView<float> strength);
// Mamba-2's gates: strength = softplus(x + bias), decay = exp(-rate * strength). x: [tokens, heads]
void mamba_gates(std::span<const float> rate, std::span<const float> bias, TensorView<const float> x,
                 TensorView<float> decay, TensorView<float> strength);

}  // namespace tp::kernels

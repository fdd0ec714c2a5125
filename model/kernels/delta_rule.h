// Kernels for the recurrence of the gated delta rule, of Kimi delta attention and of Mamba-2. They compute
// tokens one by one, in order, so results do not depend on the rest of the batch.
#pragma once

#include "model/kernels/simd/vector/activation.h"
#include "tp/tensor.h"

#include <cstddef>
#include <optional>
#include <span>

namespace tp::kernels {

// A copy of the recurrent state after the first `tokens` tokens of a run.
struct StateCopy {
  std::size_t tokens = 0;
  float* state = nullptr;
};

// Consecutive tokens of one sequence in a batch, and the memory of its state.
struct RecurrentRun {
  std::size_t first_token = 0;  // row in the batch
  std::size_t tokens = 0;
  bool begins = false;  // the sequence starts here: the state is zero, whatever is in memory
  float* state = nullptr;
  std::span<const StateCopy> copies{};  // in ascending order
};

// For each channel: out[token] = activation(bias + sum over j < taps of weight[j] * x[token - (taps - 1 -
// j)]); without an activation, the sum itself. x, out: [tokens, channels], weight: [taps, channels], bias:
// [channels], or empty. A state is the last taps - 1 rows of x: [taps - 1, channels].
void causal_convolution(TensorView<const float> x, TensorView<const float> weight,
                        std::span<const float> bias, std::optional<Activation> activation,
                        std::span<const RecurrentRun> runs, TensorView<float> out);

struct DeltaRule {
  TensorView<const float> query;             // [tokens, key heads * key_dim]
  TensorView<const float> key;               // [tokens, key heads * key_dim]
  TensorView<const float> value;             // [tokens, value heads * value_dim]
  TensorView<const float> decay;             // [tokens, value heads], or [tokens, value heads * key_dim]
  TensorView<const float> strength;          // [tokens, value heads]
  std::span<const std::size_t> key_of_head;  // [value heads]
  std::size_t key_dim = 0;
  std::size_t value_dim = 0;
  bool corrects = true;   // false: values are added without a correction, as in Mamba-2
  TensorView<float> out;  // [tokens, value heads * value_dim]
};

// Floats of a state: a matrix [key_dim, value_dim] for each value head, with rows padded to whole vectors.
std::size_t delta_state_floats(std::size_t value_heads, std::size_t key_dim, std::size_t value_dim);

// For each token of a run: S *= decay; S += k (strength (v - S^T k))^T; out = S^T q. Without corrections: S
// += k (strength v)^T. If `decay` has key_dim columns for each head, each row of S has its own decay.
void delta_rule(const DeltaRule& rule, std::span<const RecurrentRun> runs);

// decay = exp(-rate * softplus(x + bias)) in place, strength = sigmoid(strength) in place. decay: [tokens,
// decays], strength: [tokens, heads], rate, bias: [decays].
void delta_gates(std::span<const float> rate, std::span<const float> bias, TensorView<float> decay,
                 TensorView<float> strength);
// Mamba-2's gates: strength = softplus(x + bias), decay = exp(-rate * strength). x: [tokens, heads]
void mamba_gates(std::span<const float> rate, std::span<const float> bias, TensorView<const float> x,
                 TensorView<float> decay, TensorView<float> strength);

}  // namespace tp::kernels

// RWKV-7's recurrence, and what each head computes before and after it.
#pragma once

#include "model/kernels/recurrent_run.h"
#include "tp/tensor.h"

#include <cstddef>
#include <span>

namespace tp::kernels {

// Columns of a head's matrix that are side by side in a state: [heads, blocks, head_dim, 16]. The last block
// may have fewer columns, and room for 16.
inline constexpr std::size_t kWkvColumns = 16;

// Floats of a head's state.
constexpr std::size_t wkv_head_floats(std::size_t head_dim) { return head_dim * padded(head_dim); }

// All tensors: [tokens, heads * head_dim].
struct WkvScan {
  TensorView<const float> receptance;
  TensorView<const float> decay;
  TensorView<const float> key;
  TensorView<const float> value;
  TensorView<const float> removal;     // directions that are read
  TensorView<const float> correction;  // directions along which the values read are removed
  std::size_t head_dim = 0;
  TensorView<float> out;
};

// For each token of a run and each head: S = diag(decay) S - correction (S^T removal)^T + key value^T; out =
// S^T receptance. Tokens are computed one by one, so results don't depend on the steps in which they come.
void wkv_scan(const WkvScan& scan, std::span<const RecurrentRun> runs);

// Inputs of the recurrence, from projections. All tensors: [tokens, heads * head_dim].
struct WkvInputs {
  TensorView<float> key;                // projection -> key * (1 + (strength - 1) * key_gain)
  TensorView<float> decay;              // projection -> exp(-sigmoid / sqrt(e))
  TensorView<float> strength;           // projection -> correction: removal * sigmoid
  TensorView<float> removal;            // out: key * removal_gain, scaled to length 1 per head
  std::span<const float> removal_gain;  // [heads * head_dim]
  std::span<const float> key_gain;      // [heads * head_dim]
  std::size_t head_dim = 0;
};
void wkv_inputs(const WkvInputs& inputs);

// value += sigmoid(share) * (first - value). [tokens, size]
void mix_values(TensorView<const float> first, TensorView<const float> share, TensorView<float> value);

// out += (sum over the head of receptance * key * weight) * value. All tensors: [tokens, heads * head_dim],
// weight: [heads * head_dim].
struct WkvBonus {
  TensorView<const float> receptance;
  TensorView<const float> key;
  TensorView<const float> value;
  std::span<const float> weight;
  std::size_t head_dim = 0;
};
void add_wkv_bonus(const WkvBonus& bonus, TensorView<float> out);

// out = x + shift * factors. x, shift, out: [tokens, size], factors: [size]. `out` may be `shift`.
void mix_shifted(TensorView<const float> x, TensorView<const float> shift, std::span<const float> factors,
                 TensorView<float> out);

}  // namespace tp::kernels

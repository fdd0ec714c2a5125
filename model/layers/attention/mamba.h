// The Mamba-2 mixer, a recurrent layer that replaces attention or runs beside it.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/kernels/delta_rule.h"
#include "model/layers/attention/causal_convolution.h"
#include "model/layers/linear/group_norm.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/step_context.h"
#include "model/memory/state_cache.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// This rank's share: some heads, and the groups whose B and C they read.
struct MambaSizes {
  MambaSizes(const MambaSpec& spec, TpRank tp);

  HeadShard heads;    // query_heads are heads, kv_heads are groups
  std::size_t inner;  // local heads * head_dim
  std::size_t state;  // local groups * state_size

  std::size_t channels() const { return inner + 2 * state; }  // channels of x, B and C
  kernels::DeltaShape shape(const MambaSpec& spec) const;
};

// For each head, where x, B and C have passed a convolution: S = exp(-rate dt) S + B (dt x)^T; y = S^T C +
// direct x. The output is y silu(z), after its norm, if any. A state contains the convolution's last inputs,
// [conv_kernel - 1, channels], then that of the recurrence (see delta_rule.h).
class Mamba {
 public:
  // If ranks outnumber heads, some ranks have none. Throws CheckpointError.
  Mamba(WeightLoader& loader, const MambaSpec& spec, std::size_t hidden_size, const BlockNames& names);

  // x: [tokens, hidden_size] -> this rank's addend, [tokens, hidden_size]. Advances the states of the batch's
  // sequences. Collective if the norm's groups are divided; throws CommError.
  PartialSum operator()(TensorView<const float> x, const StepContext& step) const;

  // Size of one sequence's state on this rank, in floats.
  std::size_t state_floats() const;
  // A part of this state for each group, followed by one for each head.
  std::vector<StatePart> state_parts() const;

 private:
  Mamba(WeightLoader& loader, const MambaSpec& spec, std::size_t hidden_size, const BlockNames& names,
        const MambaSizes& sizes);

  // Multiplies z, x, B, C and dt by the spec's factors. projected: [tokens, 2 * inner + 2 * state + heads]
  void scale(TensorView<float> projected) const;
  // mixed: [tokens, channels], dt: [tokens, heads] -> y, [tokens, inner]
  TensorView<float> recur(TensorView<const float> mixed, TensorView<const float> dt,
                          const StepContext& step) const;

  MambaSpec spec_;
  MambaSizes sizes_;
  std::vector<std::size_t> group_of_head_;  // [local heads]
  // [2 * inner + 2 * state + heads, hidden_size]: z, x, B, C and dt, stacked vertically
  ColumnParallelLinear in_proj_;
  CausalConvolution conv_;      // over x, B and C
  std::vector<float> rate_;     // [local heads]
  std::vector<float> dt_bias_;  // [local heads]
  std::vector<float> direct_;   // [inner]
  std::optional<GroupNorm> norm_;
  RowParallelLinear out_proj_;  // [hidden_size, inner]
};

}  // namespace tp

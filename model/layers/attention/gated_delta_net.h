// The gated delta net and Kimi delta attention, recurrent layers that replace attention.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/kernels/delta_rule.h"
#include "model/layers/attention/causal_convolution.h"
#include "model/layers/linear/head_norm.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/step_context.h"
#include "model/memory/state_cache.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// This rank's share: some value heads, and the key heads that they read.
struct DeltaNetSizes {
  DeltaNetSizes(const GatedDeltaNetSpec& spec, TpRank tp);

  HeadShard heads;    // query_heads are value heads, kv_heads are key heads
  std::size_t key;    // local key heads * key_head_dim
  std::size_t value;  // local value heads * value_head_dim
  std::size_t gate;   // projections to output gates: value, or gate_rank
  std::size_t decay;  // projections to decays: local value heads, or gate_rank

  std::size_t channels() const { return 2 * key + value; }  // channels of queries, keys and values
  kernels::DeltaShape shape(const GatedDeltaNetSpec& spec) const;
};

// A state contains the convolution's last inputs, [conv_kernel - 1, channels], then that of the recurrence
// (see delta_rule.h).
class GatedDeltaNet {
 public:
  // If ranks outnumber value heads, some ranks have none. Throws CheckpointError.
  GatedDeltaNet(WeightLoader& loader, const GatedDeltaNetSpec& spec, std::size_t hidden_size,
                const BlockNames& names);

  // x: [tokens, hidden_size] -> this rank's addend, [tokens, hidden_size]. Advances the states of the batch's
  // sequences.
  PartialSum operator()(TensorView<const float> x, const StepContext& step) const;

  // Size of one sequence's state on this rank, in floats.
  std::size_t state_floats() const;
  // A part of this state for each key head, followed by one for each value head.
  std::vector<StatePart> state_parts() const;

 private:
  GatedDeltaNet(WeightLoader& loader, const GatedDeltaNetSpec& spec, std::size_t hidden_size,
                const BlockNames& names, const DeltaNetSizes& sizes);

  // mixed: [tokens, channels], decay: [tokens, heads * decays], strength: [tokens, heads] -> [tokens, value].
  // Overwrites the arguments.
  TensorView<float> recur(TensorView<float> mixed, TensorView<float> decay, TensorView<float> strength,
                          const StepContext& step) const;

  GatedDeltaNetSpec spec_;
  DeltaNetSizes sizes_;
  std::vector<std::size_t> key_of_head_;  // [local value heads]
  // [channels + gate + heads + decay, hidden_size]: queries, keys, values, output gates, strengths, decays
  ColumnParallelLinear in_proj_;
  // [value, gate_rank] and [heads * decays, gate_rank], if the spec has a gate_rank
  std::optional<ColumnParallelLinear> gate_up_;
  std::optional<ColumnParallelLinear> decay_up_;
  CausalConvolution conv_;         // over queries, keys and values
  std::vector<float> decay_rate_;  // [local value heads * decays]
  std::vector<float> decay_bias_;  // [local value heads * decays]
  std::vector<float> query_gain_;  // [key_head_dim]
  std::vector<float> key_gain_;    // [key_head_dim]
  HeadNorm norm_;
  RowParallelLinear out_proj_;  // [hidden_size, value]
};

}  // namespace tp

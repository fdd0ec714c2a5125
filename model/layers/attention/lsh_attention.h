// Reformer's attention among tokens that a locality-sensitive hash sorts next to each other.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/kernels/lsh_attention.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/step_context.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <vector>

namespace tp {

// A step computes whole sequences and caches nothing, because sorting depends on all of a sequence's tokens.
class LshAttention {
 public:
  // Throws CheckpointError, and ConfigError if there are more ranks than heads.
  LshAttention(WeightLoader& loader, const LshAttentionSpec& spec, std::size_t hidden_size,
               const BlockNames& names);

  // x: [tokens, hidden_size] -> this rank's addend, [tokens, hidden_size]
  PartialSum operator()(TensorView<const float> x, const StepContext& step) const;

 private:
  LshAttention(WeightLoader& loader, const LshAttentionSpec& spec, std::size_t hidden_size,
               const BlockNames& names, Range heads);

  std::size_t padded(std::size_t tokens) const;
  kernels::LshLimits limits(std::size_t tokens) const;
  std::vector<std::vector<float>> rotations_of(std::span<const std::vector<std::size_t>> factors) const;

  LshAttentionSpec spec_;
  Range heads_;                   // this rank's heads
  std::vector<float> rotations_;  // set if all sequences have the same number of buckets
  // [2 * local heads * head_dim, hidden_size]: queries, which also serve as keys, then values
  ColumnParallelLinear qkv_proj_;
  RowParallelLinear o_proj_;  // [hidden_size, local heads * head_dim]
};

}  // namespace tp

// Attention from the decoder's tokens to the encoder's states.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/kernels/paged_cache.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/step_context.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Keys and values are projected once, when the input is encoded. The cache of the layer's self-attention
// stores them in separate blocks, before the blocks of the decoder's tokens.
class CrossAttention {
 public:
  // Throws CheckpointError, and ConfigError if there are more ranks than heads.
  CrossAttention(WeightLoader& loader, const AttentionSpec& spec, std::size_t hidden_size,
                 const CrossAttentionNames& names);

  // Writes the keys and values of encoded inputs to the cache. states: [tokens, hidden_size], after the
  // encoder's final norm. `step`: the encoder's step.
  void remember(TensorView<const float> states, const StepContext& step,
                const kernels::PagedCache& cache) const;

  // x: [tokens, hidden_size] -> this rank's addend, [tokens, hidden_size]
  PartialSum operator()(TensorView<const float> x, const StepContext& step,
                        const kernels::PagedCache& cache) const;

 private:
  CrossAttention(WeightLoader& loader, const AttentionSpec& spec, std::size_t hidden_size,
                 const CrossAttentionNames& names, const HeadShard& shard);

  std::size_t query_size_;               // local_heads * head_dim
  std::size_t kv_size_;                  // local_kv_heads * head_dim
  std::vector<std::size_t> kv_of_head_;  // [local_heads]
  float scale_;
  ColumnParallelLinear q_proj_;   // [query_size, hidden_size]
  ColumnParallelLinear kv_proj_;  // [2 * kv_size, hidden_size]: k, then v
  RowParallelLinear o_proj_;      // [hidden_size, query_size]
};

}  // namespace tp

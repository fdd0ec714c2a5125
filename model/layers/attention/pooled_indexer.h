// The indexer of grouped-query attention that chooses pools of positions, which all heads read.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/kernels/attention.h"
#include "model/layers/attention/open_pools.h"
#include "model/layers/linear/head_norm.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/rope.h"
#include "model/layers/linear/step_context.h"
#include "model/weights/weight_loader.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// See PooledIndexerSpec. Every rank has all index heads, and each KV head's cache contains a copy of the keys
// of closed pools. So ranks exchange nothing for the choice, which depends on a token's position and on the
// keys before it only, not on the tokens of the step. The rows of the open pool are the layer's state.
class PooledIndexer {
 public:
  // `spec`: has a pooled_indexer. Throws CheckpointError.
  PooledIndexer(WeightLoader& loader, const AttentionSpec& spec, std::size_t hidden_size,
                const PooledIndexerNames& names);

  // Writes the keys of pools that the tokens close to the cache, advances the states of open pools, and
  // computes attention to the chosen positions. x: the input of attention, [tokens, hidden_size]. Keys and
  // values of `args` are in the cache. Throws CommError.
  void attend(TensorView<const float> x, const kernels::AttentionArgs& args, const StepContext& step) const;

  std::size_t head_dim() const { return spec_.head_dim; }
  // The state of the open pool.
  const OpenPools& pools() const { return pools_; }

 private:
  // key: raw keys of the step's tokens, [tokens, head_dim]
  void remember(TensorView<const float> key, const kernels::PagedCache& cache, const StepContext& step) const;
  // Attends with the tokens that see more than max_positions(). query: [tokens, num_heads * head_dim]
  void attend_to_pools(TensorView<const float> query, const kernels::AttentionArgs& args,
                       const StepContext& step) const;

  PooledIndexerSpec spec_;
  std::optional<Rope> rope_;   // at the first positions of pools
  ColumnParallelLinear proj_;  // [(num_heads + 1) * head_dim, hidden_size]: queries, then the key
  HeadNorm query_norm_;
  HeadNorm key_norm_;
  OpenPools pools_;
};

}  // namespace tp

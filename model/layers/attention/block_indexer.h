// The indexer of grouped-query attention: it chooses the blocks that the heads of each KV head read.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/kernels/attention.h"
#include "model/layers/linear/head_norm.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/step_context.h"
#include "model/weights/weight_loader.h"

#include <cstddef>
#include <optional>

namespace tp {

// See BlockIndexerSpec. A rank has the index heads of the KV heads that it reads. The index key is the same
// for all of them, and each KV head's cache contains a copy. So ranks exchange nothing for the choice, which
// depends on a token's position and on index keys only, not on the tokens of the step.
class BlockIndexer {
 public:
  // `spec`: has a block_indexer. Throws CheckpointError.
  BlockIndexer(WeightLoader& loader, const AttentionSpec& spec, std::size_t hidden_size,
               const BlockIndexerNames& names, const HeadShard& shard);

  // Writes the tokens' index keys to the cache, and computes attention to the chosen blocks. x: the input of
  // attention, [tokens, hidden_size]. Keys and values of `args` are in the cache. Throws CommError.
  void attend(TensorView<const float> x, const kernels::AttentionArgs& args, const StepContext& step) const;

  std::size_t head_dim() const { return spec_.head_dim; }

 private:
  // Attends with the tokens that see more blocks than top_k. query: of the index heads, [tokens, kv_heads *
  // head_dim]
  void attend_to_blocks(TensorView<const float> query, const kernels::AttentionArgs& args,
                        const StepContext& step) const;

  BlockIndexerSpec spec_;
  std::size_t kv_heads_;
  std::optional<RopeSpec> rope_;
  bool interleaved_rope_;
  ColumnParallelLinear proj_;  // [(kv_heads + 1) * head_dim, hidden_size]: queries, then the key
  HeadNorm query_norm_;
  HeadNorm key_norm_;
};

}  // namespace tp

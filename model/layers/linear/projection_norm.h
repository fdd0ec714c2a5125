#pragma once

#include "model/config/spec.h"
#include "model/layers/linear/step_context.h"
#include "model/weights/weight_loader.h"

#include <cstddef>
#include <vector>

namespace tp {

// RMS norms of whole queries and keys, whose heads are divided among ranks. One small all-reduce adds up the
// ranks' sums of squares for queries and keys. If several ranks hold a head, only the head's owner counts it.
class ProjectionNorm {
 public:
  // Throws CheckpointError, and ConfigError unless query_key_norm is an RMS norm.
  ProjectionNorm(WeightLoader& loader, const AttentionSpec& spec, const BlockNames& names,
                 const HeadShard& shard);

  // Normalizes in place. query: [tokens, local_heads * head_dim], key: [tokens, local_kv_heads * head_dim].
  // Collective except in shape-only steps; throws CommError.
  void operator()(TensorView<float> query, TensorView<float> key, const StepContext& step) const;

 private:
  struct Part {
    std::size_t size;          // columns of the whole projection
    std::vector<float> gain;   // [local columns]
    std::size_t first_column;  // first local column that this rank counts
    std::size_t columns;
  };

  static Part load(WeightLoader& loader, const NormSpec& spec, const std::string& name, std::size_t head_dim,
                   std::size_t heads, Range held, Range counted);

  std::size_t head_dim_;
  float eps_;
  Part query_;
  Part key_;
};

}  // namespace tp

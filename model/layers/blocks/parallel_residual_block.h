// A block whose attention and feed-forward halves read the same input, so one all-reduce is enough.
#pragma once

#include "model/layers/blocks/block_parts.h"
#include "model/layers/blocks/residual.h"
#include "model/layers/linear/norm.h"

#include <cstddef>
#include <optional>

namespace tp {

// x += attention(norm(x)) + mlp(norm(x)), with a shared norm or two separate norms. Source: Wang and
// Komatsuzaki, GPT-J-6B, 2021.
class ParallelResidualBlock {
 public:
  ParallelResidualBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                        const BlockNames& names);

  // Collective; throws CommError.
  void operator()(Residual& x, const StepContext& step, const kernels::PagedCache& cache) const;

  const AttentionPart& attention() const { return attention_; }

 private:
  std::optional<Norm> input_norm_;
  AttentionPart attention_;
  std::optional<Norm> pre_feed_forward_norm_;  // none: input_norm_ serves both halves
  FeedForwardPart feed_forward_;
  float residual_scale_;
};

}  // namespace tp

// The usual transformer block, with the two all-reduces of tensor parallelism.
#pragma once

#include "model/layers/blocks/block_parts.h"
#include "model/layers/blocks/residual.h"
#include "model/layers/linear/norm.h"

#include <cstddef>
#include <optional>

namespace tp {

// x += attention(norm(x)); x += mlp(norm(x)). Some families also normalize or scale the outputs of attention
// and mlp, or normalize only the outputs. A decoder that reads an encoder computes x +=
// cross_attention(norm(x)) in between, with a third all-reduce.
class SequentialBlock {
 public:
  SequentialBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                  const BlockNames& names);

  // Collective; throws CommError.
  void operator()(Residual& x, const StepContext& step, const kernels::PagedCache& cache) const;

  const AttentionPart& attention() const { return attention_; }
  // Null if the block has no cross-attention.
  const CrossAttention* cross_attention() const { return cross_attention_ ? &*cross_attention_ : nullptr; }

 private:
  std::optional<Norm> input_norm_;
  AttentionPart attention_;
  std::optional<Norm> post_attention_norm_;
  std::optional<Norm> cross_attention_norm_;
  std::optional<CrossAttention> cross_attention_;
  std::optional<Norm> pre_feed_forward_norm_;
  FeedForwardPart feed_forward_;
  std::optional<Norm> post_feed_forward_norm_;
  float residual_scale_;
};

}  // namespace tp

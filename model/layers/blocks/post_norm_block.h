// The block of the original Transformer and of BERT: two all-reduces, or three with cross-attention.
#pragma once

#include "model/layers/blocks/block_parts.h"
#include "model/layers/blocks/residual.h"
#include "model/layers/linear/norm.h"

#include <cstddef>
#include <optional>

namespace tp {

// x = norm(x + attention(x)); x = norm(x + mlp(x)). A decoder that reads an encoder computes x = norm(x +
// cross_attention(x)) in between. Source: Vaswani et al., Attention Is All You Need, 2017.
class PostNormBlock {
 public:
  PostNormBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                const BlockNames& names);

  // Collective; throws CommError.
  void operator()(Residual& x, const StepContext& step, const kernels::PagedCache& cache) const;

  const AttentionPart& attention() const { return attention_; }
  // Null if the block has no cross-attention.
  const CrossAttention* cross_attention() const { return cross_attention_ ? &*cross_attention_ : nullptr; }

 private:
  AttentionPart attention_;
  Norm attention_norm_;
  std::optional<CrossAttention> cross_attention_;
  std::optional<Norm> cross_attention_norm_;  // set if cross_attention_ is set
  FeedForwardPart feed_forward_;
  Norm feed_forward_norm_;
};

}  // namespace tp

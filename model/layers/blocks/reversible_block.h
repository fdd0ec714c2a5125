// Reformer's block, with two residual streams and two all-reduces.
#pragma once

#include "model/layers/blocks/block_parts.h"
#include "model/layers/blocks/residual.h"
#include "model/layers/linear/norm.h"

#include <cstddef>

namespace tp {

// x[0] += attention(norm(x[1])); x[1] += mlp(norm(x[0])). In training, a block's input can be recomputed from
// its output. Source: Gomez et al., The Reversible Residual Network, 2017, as used by Reformer.
class ReversibleBlock {
 public:
  ReversibleBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                  const BlockNames& names);

  // Collective; throws CommError.
  void operator()(Residual& x, const StepContext& step, const kernels::PagedCache& cache) const;

  const AttentionPart& attention() const { return attention_; }

 private:
  Norm input_norm_;
  AttentionPart attention_;
  Norm pre_feed_forward_norm_;
  FeedForwardPart feed_forward_;
};

}  // namespace tp

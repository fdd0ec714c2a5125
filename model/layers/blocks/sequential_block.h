// The usual transformer block, with the two all-reduces of tensor parallelism.
#pragma once

#include "model/layers/blocks/block_parts.h"
#include "model/layers/blocks/parallel_experts.h"
#include "model/layers/blocks/residual.h"
#include "model/layers/feed_forward/laurel.h"
#include "model/layers/feed_forward/layer_input.h"
#include "model/layers/linear/norm.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// x += attention(norm(x)); x += mlp(norm(x)). A block may lack one half. Some families also normalize or
// scale the outputs of attention and mlp, or normalize only the outputs. A mixer may run beside attention;
// one all-reduce sums both outputs. A decoder that reads an encoder computes x += cross_attention(norm(x)) in
// between, with a third all-reduce. Experts in addition to the MLP also need a third all-reduce. The layer's
// own input and the factor of the output need no communication.
class SequentialBlock {
 public:
  SequentialBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                  const BlockNames& names);

  // Collective; throws CommError.
  void operator()(Residual& x, const StepContext& step, const kernels::PagedCache& cache) const;

  const AttentionPart& attention() const { return attention_; }
  // Its state follows that of attention.
  const FeedForwardPart& feed_forward() const { return feed_forward_; }
  // Null if no mixer runs beside attention.
  const Mamba* parallel_mixer() const { return parallel_mixer_ ? &*parallel_mixer_ : nullptr; }
  // Null if the block has no cross-attention.
  const CrossAttention* cross_attention() const { return cross_attention_ ? &*cross_attention_ : nullptr; }

 private:
  // Attention's input: norm(x), after the layer's own input if the block joins both.
  TensorView<const float> attention_input(const Residual& x, const StepContext& step) const;
  // x += attention(norm(x)), or with Laurel (x + attention(norm(x)) + laurel(norm(x))) / sqrt(2).
  void add_attention(Residual& x, const StepContext& step, const kernels::PagedCache& cache) const;
  // The outputs of attention and of the mixer beside it.
  PartialSum attend(TensorView<const float> x, const StepContext& step,
                    const kernels::PagedCache& cache) const;
  // x += feed_forward(norm(x)), with experts in addition if the block has them.
  void add_feed_forward(Residual& x, const StepContext& step) const;
  // x *= the learned factor, if the block has one; tokens of a canvas may have another.
  void scale_output(Residual& x, const StepContext& step) const;

  std::optional<Norm> input_norm_;
  bool joins_layer_input_;
  AttentionPart attention_;
  std::optional<Mamba> parallel_mixer_;
  std::optional<Laurel> laurel_;
  std::optional<Norm> post_attention_norm_;
  std::optional<Norm> cross_attention_norm_;
  std::optional<CrossAttention> cross_attention_;
  std::optional<Norm> pre_feed_forward_norm_;
  FeedForwardPart feed_forward_;
  std::optional<Norm> post_feed_forward_norm_;
  std::optional<ParallelExperts> parallel_experts_;
  std::optional<LayerInput> layer_input_;
  std::vector<float> output_scale_;         // [1], or empty
  std::vector<float> canvas_output_scale_;  // [1], or empty: tokens of a canvas have the same factor
  float residual_scale_;
};

}  // namespace tp

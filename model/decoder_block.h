// One layer of the decoder, with the two all-reduces of tensor parallelism.
#pragma once

#include "model/attention.h"
#include "model/mlp.h"
#include "model/norm.h"
#include "parallel/collectives.h"

#include <cstddef>
#include <variant>

namespace tp {

// The parts that a block can have; a further kind is a further alternative.
using AttentionPart = std::variant<Attention>;
using FeedForwardPart = std::variant<GatedMlp>;

// The sequential, pre-norm block: x += attention(norm(x)); x += mlp(norm(x)).
class DecoderBlock {
 public:
  DecoderBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size, std::size_t layer);

  // x: [tokens, hidden_size], the residual stream, in place; equal on every rank before and after. Throws
  // CommError.
  void operator()(Communicator& comm, TensorView<float> x, const StepContext& step,
                  const kernels::PagedCache& cache) const;

  std::size_t bytes() const;

 private:
  DecoderBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
               const tensor_names::Block& names);

  RmsNorm input_norm_;
  AttentionPart attention_;
  RmsNorm post_attention_norm_;
  FeedForwardPart feed_forward_;
};

}  // namespace tp

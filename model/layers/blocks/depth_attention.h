// Attention residuals: what a half of a block reads of the sums that earlier blocks have left.
#pragma once

#include "model/layers/linear/linear.h"
#include "model/layers/linear/step_context.h"

#include <cstddef>
#include <vector>

namespace tp {

// See DepthAttentionSpec. Stream 0 is the running sum, and stream 1 + i is sum i once it has been kept. A
// connection for Residual::through, around a half of a block. Every rank computes the same weights.
class DepthAttention {
 public:
  // `sums`: kept before. `keep`: the half keeps the running sum as the next one, and its output replaces the
  // running sum. Throws CheckpointError.
  DepthAttention(WeightLoader& loader, const NormSpec& norm, std::size_t sums, bool keep,
                 std::size_t hidden_size, const DepthAttentionNames& names);

  // The connections of a block.
  static DepthAttention of_attention(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                                     const BlockNames& names);
  static DepthAttention of_feed_forward(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                                        const BlockNames& names);

  struct Entered {
    TensorView<float> input;  // [tokens, hidden_size]
  };
  // streams: [tokens, streams * hidden_size]
  Entered enter(TensorView<const float> streams, const StepContext& step) const;
  // y: the output of the half, [tokens, hidden_size]
  void leave(TensorView<const float> y, const Entered& entered, TensorView<float> streams) const;

  // For the final norm: the sum that a half would read. x: [rows, streams * hidden_size] -> [rows,
  // hidden_size]
  TensorView<float> operator()(TensorView<const float> x, const StepContext& step) const;

 private:
  std::size_t sums_;
  bool keep_;
  float eps_;
  std::vector<float> weight_;  // [hidden_size] including the norm's gain
};

}  // namespace tp

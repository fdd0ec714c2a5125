// Hyper-connections of low rank, which replace the norms of a block.
#pragma once

#include "model/layers/linear/head_norm.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/step_context.h"

#include <cstddef>
#include <optional>

namespace tp {

// See LowRankConnectionSpec. A connection for Residual::through, around a half of a block. Every rank has all
// weights and computes the same mix.
class LowRankConnection {
 public:
  // Without names.inject, nothing can be injected. Throws CheckpointError.
  LowRankConnection(WeightLoader& loader, const LowRankConnectionSpec& spec, std::size_t hidden_size,
                    const LowRankConnectionNames& names);

  // The connections of a block.
  static LowRankConnection of_attention(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                                        const BlockNames& names) {
    return {loader, spec.low_rank_connection.value(), hidden_size, names.attention_low_rank};
  }
  static LowRankConnection of_feed_forward(WeightLoader& loader, const BlockSpec& spec,
                                           std::size_t hidden_size, const BlockNames& names) {
    return {loader, spec.low_rank_connection.value(), hidden_size, names.feed_forward_low_rank};
  }

  struct Entered {
    TensorView<float> input;           // [tokens, hidden_size]
    TensorView<const float> on_leave;  // [tokens, streams] weights of the output
  };
  // streams: [tokens, streams * hidden_size]. Needs names.inject.
  Entered enter(TensorView<const float> streams, const StepContext& step) const;
  // y: the output of the half, [tokens, hidden_size]
  void leave(TensorView<const float> y, const Entered& entered, TensorView<float> streams) const;

  // The input of a half, or of the LM head: [tokens, hidden_size]
  TensorView<float> mixed(TensorView<const float> streams, const StepContext& step) const;

 private:
  // Each stream after its norm.
  TensorView<float> normed(TensorView<const float> streams, const StepContext& step) const;
  // Overwrites the normed streams.
  void mix(TensorView<float> normed, const StepContext& step, TensorView<float> input) const;

  std::size_t streams_;
  HeadNorm norm_;              // the streams are its heads
  ColumnParallelLinear down_;  // [rank, streams * hidden_size]
  ColumnParallelLinear up_;    // [streams * hidden_size, rank]
  // [streams, streams * hidden_size], in float32 because it is small; nullopt: injects nothing.
  std::optional<Buffer<float>> inject_;
};

}  // namespace tp

// Hyper-connections of low rank, which replace the norms of a block.
#pragma once

#include "model/layers/linear/head_norm.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/step_context.h"

#include <cstddef>
#include <optional>

namespace tp {

// See LowRankConnectionSpec. A connection for Residual::through, around a half of a block. Ranks divide the
// rows of `down`, and the channels of `up`, because these weights are a tenth of all that a token reads. Two
// sums over ranks, in which each number has one addend that is not zero, make the mix whole on every rank.
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
  // streams: [tokens, streams * hidden_size]. Needs names.inject. Collective, except in shape-only steps.
  // Throws CommError.
  Entered enter(TensorView<const float> streams, const StepContext& step) const;
  // y: the output of the half, [tokens, hidden_size]
  void leave(TensorView<const float> y, const Entered& entered, TensorView<float> streams) const;

  // The input of a half, or of the LM head: [tokens, hidden_size]. Collective like enter().
  TensorView<float> mixed(TensorView<const float> streams, const StepContext& step) const;

 private:
  // Each stream after its norm.
  TensorView<float> normed(TensorView<const float> streams, const StepContext& step) const;
  void mix(TensorView<const float> normed, const StepContext& step, TensorView<float> input) const;

  std::size_t streams_;
  std::size_t rank_;           // the rank of both matrices, hc_lowrank
  Range own_low_;              // this rank's rows of `down`
  Range own_channels_;         // this rank's channels of every stream
  HeadNorm norm_;              // the streams are its heads
  ColumnParallelLinear down_;  // [own rows, streams * hidden_size]
  ColumnParallelLinear up_;    // [streams * own channels, rank]
  // [streams, streams * hidden_size], in float32 because it is small; nullopt: injects nothing.
  std::optional<Buffer<float>> inject_;
};

}  // namespace tp

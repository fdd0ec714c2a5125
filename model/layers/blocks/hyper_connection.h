// The streams of hyper-connections: what a half of a block reads of them, and what it adds to them.
#pragma once

#include "model/layers/linear/linear.h"
#include "model/layers/linear/step_context.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// Weights of streams that follow from all streams of a token. The matrix is small, so every rank has all of
// it, in float32.
class StreamWeights {
 public:
  // `groups`: the weights of each kind, which have a factor of their own. Throws CheckpointError.
  StreamWeights(WeightLoader& loader, const HyperConnectionSpec& spec, const std::vector<std::size_t>& groups,
                std::size_t hidden_size, const HyperConnectionNames& names);

  // Before the sigmoid. x: [tokens, streams * hidden_size] -> [tokens, weights]
  TensorView<float> operator()(TensorView<const float> x, const StepContext& step) const;

 private:
  float norm_eps_;
  Buffer<float> fn_;          // [weights, streams * hidden_size]
  std::vector<float> base_;   // [weights]
  std::vector<float> scale_;  // [weights] the factor of each weight's group
};

// See HyperConnectionSpec. A connection for Residual::through, around a half of a block.
class HyperConnection {
 public:
  // Throws CheckpointError.
  HyperConnection(WeightLoader& loader, const HyperConnectionSpec& spec, std::size_t hidden_size,
                  const HyperConnectionNames& names);

  // The connections of a block.
  static HyperConnection of_attention(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                                      const BlockNames& names) {
    return {loader, spec.hyper_connection.value(), hidden_size, names.attention_connection};
  }
  static HyperConnection of_feed_forward(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                                         const BlockNames& names) {
    return {loader, spec.hyper_connection.value(), hidden_size, names.feed_forward_connection};
  }

  struct Entered {
    TensorView<float> input;           // [tokens, hidden_size]
    TensorView<const float> on_leave;  // [tokens, streams] weights of the output
    TensorView<const float> mix;       // [tokens, streams * streams]; without columns: streams are not mixed
    TensorView<const float> next;      // [tokens, lagging_weights()] by which the next half reads
  };
  // streams: [tokens, streams * hidden_size + lagging_weights()]
  Entered enter(TensorView<const float> streams, const StepContext& step) const;
  // y: the output of the half, [tokens, hidden_size]
  void leave(TensorView<const float> y, const Entered& entered, TensorView<float> streams) const;

 private:
  HyperConnectionSpec spec_;
  StreamWeights weights_;
};

// The input of the final norm.
class LastConnection {
 public:
  // A mean has no weights, and reads no tensors, like a connection that lags. Throws CheckpointError.
  LastConnection(WeightLoader& loader, const HyperConnectionSpec& spec, std::size_t hidden_size,
                 const HyperConnectionNames& names);

  // x: [rows, streams * hidden_size + lagging_weights()] -> [rows, hidden_size]
  TensorView<float> operator()(TensorView<const float> x, const StepContext& step) const;

 private:
  HyperConnectionSpec spec_;
  std::optional<StreamWeights> weights_;  // nullopt: the mean, or the last half's weights
};

}  // namespace tp

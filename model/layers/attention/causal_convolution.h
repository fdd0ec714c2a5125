// A causal depthwise convolution over tokens.
#pragma once

#include "model/config/spec.h"
#include "model/layers/linear/step_context.h"
#include "model/weights/weight_loader.h"
#include "parallel/shard/shard.h"
#include "tp/tensor.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// The layer's state begins with the convolution's last inputs, [taps - 1, local channels].
class CausalConvolution {
 public:
  // `layer`: all channels' weights, [channels, taps], and perhaps biases, which every rank reads because they
  // are small. `own`: the channels that this rank owns. Throws CheckpointError.
  CausalConvolution(WeightLoader& loader, const StoredLayer& layer, const std::vector<Range>& own,
                    bool bias = false);

  // x: [tokens, local channels] -> [tokens, local channels]. Advances the states of the batch's sequences.
  TensorView<float> operator()(TensorView<const float> x, std::optional<Activation> activation,
                               const StepContext& step) const;

  // Size of one sequence's state on this rank, in floats, rounded up to whole cache lines.
  std::size_t state_floats() const;

 private:
  std::size_t taps_;
  std::size_t channels_ = 0;   // local channels
  std::vector<float> weight_;  // [taps, channels]
  std::vector<float> bias_;    // [channels], or empty
};

}  // namespace tp

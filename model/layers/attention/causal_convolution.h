// A causal depthwise convolution over tokens. Its last inputs are part of a sequence's state.
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

// The first [taps - 1, local channels] floats of the layer's state are the convolution's last inputs.
class CausalConvolution {
 public:
  // `layer`: the whole model's weights, [channels, taps]. The weights are small, so every rank reads all of
  // them. `own`: ranges of channels that this rank owns. Throws CheckpointError.
  CausalConvolution(WeightLoader& loader, const StoredLayer& layer, const std::vector<Range>& own);

  // x: [tokens, local channels] -> [tokens, local channels]. Advances the states of the batch's sequences.
  TensorView<float> operator()(TensorView<const float> x, std::optional<Activation> activation,
                               const StepContext& step) const;

  // Floats of one sequence's state on this rank, rounded up to whole cache lines.
  std::size_t state_floats() const;

 private:
  std::size_t taps_;
  std::size_t channels_ = 0;   // local channels
  std::vector<float> weight_;  // [taps, channels]
};

}  // namespace tp

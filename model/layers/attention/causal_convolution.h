// A depthwise convolution over a token's channels and those of the tokens before it, whose last inputs are a
// sequence's state.
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

// The state is at the begin of a layer's: its last inputs, [taps - 1, local channels].
class CausalConvolution {
 public:
  // `layer`: [channels, taps] of the whole model, which every rank reads, few as they are. `own`: the
  // channels of this rank, range by range. Throws CheckpointError.
  CausalConvolution(WeightLoader& loader, const StoredLayer& layer, const std::vector<Range>& own);

  // x: [tokens, local channels] -> the same. Advances the states of the batch's sequences.
  TensorView<float> operator()(TensorView<const float> x, std::optional<Activation> activation,
                               const StepContext& step) const;

  // Floats of the state that this rank keeps of a sequence, whole cache lines.
  std::size_t state_floats() const;

 private:
  std::size_t taps_;
  std::size_t channels_ = 0;   // local channels
  std::vector<float> weight_;  // [taps, channels]
};

}  // namespace tp

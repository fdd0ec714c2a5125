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

// A stored convolution, and the channels that this rank owns.
struct OwnedChannels {
  StoredLayer layer;
  std::vector<Range> own;
};

// The layer's state begins with the convolution's last inputs, [(taps - 1) * dilation, local channels].
class CausalConvolution {
 public:
  // Layers: all channels' weights, [channels, taps], and perhaps biases, which every rank reads because they
  // are small. `own`: the channels of these layers that this rank owns. `dilation`: tokens from one tap to
  // the next. Throws CheckpointError.
  CausalConvolution(WeightLoader& loader, const StoredLayer& layer, const std::vector<Range>& own,
                    bool bias = false, std::size_t dilation = 1);
  CausalConvolution(WeightLoader& loader, const std::vector<OwnedChannels>& layers, bool bias);

  // x: [tokens, local channels] -> [tokens, local channels]. Advances the states of the batch's sequences.
  TensorView<float> operator()(TensorView<const float> x, std::optional<Activation> activation,
                               const StepContext& step) const;

  // Rows of the state.
  std::size_t state_rows() const { return (taps_ - 1) * dilation_; }
  // Size of one sequence's state on this rank, in floats, rounded up to whole cache lines.
  std::size_t state_floats() const;

 private:
  // Appends the owned channels' weights, [channels, taps], and biases.
  void append(WeightLoader& loader, const OwnedChannels& part, bool bias, std::vector<float>& by_channel);

  std::size_t taps_ = 0;
  std::size_t dilation_ = 1;
  std::size_t channels_ = 0;   // local channels
  std::vector<float> weight_;  // [taps, channels]
  std::vector<float> bias_;    // [channels], or empty
};

}  // namespace tp

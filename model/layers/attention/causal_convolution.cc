#include "model/layers/attention/causal_convolution.h"

#include "model/kernels/recurrent_inputs.h"
#include "model/layers/linear/recurrent_runs.h"

namespace tp {

CausalConvolution::CausalConvolution(WeightLoader& loader, const StoredLayer& layer,
                                     const std::vector<Range>& own, bool bias, std::size_t dilation)
    : CausalConvolution(loader, {{layer, own}}, bias) {
  dilation_ = dilation;
}

CausalConvolution::CausalConvolution(WeightLoader& loader, const std::vector<OwnedChannels>& layers,
                                     bool bias)
    : taps_(layers.front().layer.shape.columns) {
  std::vector<float> by_channel;  // [channels, taps]
  for (const OwnedChannels& part : layers) append(loader, part, bias, by_channel);
  channels_ = by_channel.size() / taps_;
  weight_.resize(by_channel.size());
  for (std::size_t i = 0; i < by_channel.size(); ++i)
    weight_[i % taps_ * channels_ + i / taps_] = by_channel[i];
}

void CausalConvolution::append(WeightLoader& loader, const OwnedChannels& part, bool bias,
                               std::vector<float>& by_channel) {
  const StoredLayer& layer = part.layer;
  const Buffer<float> stored = loader.whole_weight(layer);
  std::vector<float> biases;
  if (bias)
    biases = loader.whole_vector(tensor_names::bias_of(layer.name), layer.shape.rows, layer.out_reason);
  for (const Range& range : part.own) {
    const auto copy = [&](const float* from, std::size_t size, std::vector<float>& to) {
      to.insert(to.end(), from + range.begin * size, from + range.end * size);
    };
    if (loader.reads())
      copy(stored.data(), taps_, by_channel);
    else
      by_channel.resize(by_channel.size() + range.size() * taps_);
    if (bias) copy(biases.data(), 1, bias_);
  }
}

TensorView<float> CausalConvolution::operator()(TensorView<const float> x,
                                                std::optional<Activation> activation,
                                                const StepContext& step) const {
  const TensorView<float> mixed = step.workspace.take(x.rows(), x.columns());
  if (!x.empty()) {
    const TensorView<const float> weight(weight_.data(), taps_, channels_);
    kernels::causal_convolution(x, weight, bias_, activation, RecurrentRuns(step).all(), mixed, dilation_);
  }
  return mixed;
}

std::size_t CausalConvolution::state_floats() const { return kernels::padded(state_rows() * channels_); }

}  // namespace tp

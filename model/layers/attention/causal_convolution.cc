#include "model/layers/attention/causal_convolution.h"

#include "model/kernels/delta_rule.h"
#include "model/layers/attention/recurrent_runs.h"

namespace tp {

CausalConvolution::CausalConvolution(WeightLoader& loader, const StoredLayer& layer,
                                     const std::vector<Range>& own, bool bias)
    : taps_(layer.shape.columns) {
  for (const Range& range : own) channels_ += range.size();
  const Buffer<float> stored = loader.whole_weight(layer);
  weight_.resize(taps_ * channels_);
  if (bias) {
    const std::vector<float> all =
        loader.whole_vector(tensor_names::bias_of(layer.name), layer.shape.rows, layer.out_reason);
    for (const Range& range : own)
      bias_.insert(bias_.end(), all.begin() + static_cast<std::ptrdiff_t>(range.begin),
                   all.begin() + static_cast<std::ptrdiff_t>(range.end));
  }
  if (!loader.reads()) return;
  std::size_t local = 0;
  for (const Range& range : own) {
    for (std::size_t channel = range.begin; channel < range.end; ++channel, ++local) {
      for (std::size_t tap = 0; tap < taps_; ++tap)
        weight_[tap * channels_ + local] = stored[channel * taps_ + tap];
    }
  }
}

TensorView<float> CausalConvolution::operator()(TensorView<const float> x,
                                                std::optional<Activation> activation,
                                                const StepContext& step) const {
  const TensorView<float> mixed = step.workspace.take(x.rows(), x.columns());
  if (!x.empty()) {
    const TensorView<const float> weight(weight_.data(), taps_, channels_);
    kernels::causal_convolution(x, weight, bias_, activation, RecurrentRuns(step).all(), mixed);
  }
  return mixed;
}

std::size_t CausalConvolution::state_floats() const { return ((taps_ - 1) * channels_ + 15) / 16 * 16; }

}  // namespace tp

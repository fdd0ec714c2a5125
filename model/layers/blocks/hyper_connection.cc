#include "model/layers/blocks/hyper_connection.h"

#include "model/kernels/experts.h"
#include "model/kernels/streams.h"

namespace tp {

StreamWeights::StreamWeights(WeightLoader& loader, const HyperConnectionSpec& spec, std::size_t groups,
                             std::size_t hidden_size, const HyperConnectionNames& names)
    : norm_eps_(spec.norm_eps),
      fn_(loader.whole_tensor({names.fn,
                               {groups * spec.streams, spec.streams * hidden_size},
                               "weights of hc_mult streams",
                               "hc_mult x hidden_size"})) {
  const std::size_t weights = groups * spec.streams;
  base_ = loader.whole_vector(names.base, weights, "weights of hc_mult streams");
  for (const float factor : loader.whole_vector(names.scale, groups, "one factor per kind of weight"))
    scale_.insert(scale_.end(), spec.streams, factor);
}

TensorView<float> StreamWeights::operator()(TensorView<const float> x, const StepContext& step) const {
  const TensorView<float> weights = step.workspace.take(x.rows(), base_.size());
  kernels::router_logits(x, {fn_.data(), base_.size(), x.columns()}, weights);
  kernels::normalize_weights(x, norm_eps_, scale_, base_, weights);
  return weights;
}

HyperConnection::HyperConnection(WeightLoader& loader, const HyperConnectionSpec& spec,
                                 std::size_t hidden_size, const HyperConnectionNames& names)
    : spec_(spec), weights_(loader, spec, 2, hidden_size, names) {}

HyperConnection::Entered HyperConnection::enter(TensorView<const float> streams,
                                                const StepContext& step) const {
  const TensorView<float> input = step.workspace.take(streams.rows(), streams.columns() / spec_.streams);
  const TensorView<float> weights = weights_(streams, step);
  const TensorView<float> on_enter = weights.columns_from(0, spec_.streams);
  const TensorView<float> on_leave = weights.columns_from(spec_.streams, spec_.streams);
  kernels::sigmoid_gates(1.0F, spec_.eps, on_enter);
  kernels::sigmoid_gates(spec_.magnitude, spec_.eps, on_leave);
  kernels::sum_streams(on_enter, streams, input);
  return {input, on_leave};
}

void HyperConnection::leave(TensorView<const float> y, const Entered& entered,
                            TensorView<float> streams) const {
  kernels::add_to_streams(entered.on_leave, y, streams);
}

LastConnection::LastConnection(WeightLoader& loader, const HyperConnectionSpec& spec, std::size_t hidden_size,
                               const HyperConnectionNames& names)
    : spec_(spec), weights_(loader, spec, 1, hidden_size, names) {}

TensorView<float> LastConnection::operator()(TensorView<const float> x, const StepContext& step) const {
  const TensorView<float> sum = step.workspace.take(x.rows(), x.columns() / spec_.streams);
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> weights = weights_(x, step);
  kernels::sigmoid_gates(1.0F, spec_.eps, weights);
  kernels::sum_streams(weights, x, sum);
  return sum;
}

}  // namespace tp

#include "model/layers/blocks/hyper_connection.h"

#include "model/kernels/experts.h"
#include "model/kernels/streams.h"

#include <algorithm>
#include <numeric>

namespace tp {

namespace {

std::vector<std::size_t> groups_of(const HyperConnectionSpec& spec) {
  std::vector<std::size_t> groups = {spec.streams, spec.streams};
  if (spec.sinkhorn_steps > 0) groups.push_back(spec.streams * spec.streams);
  return groups;
}

// The streams, without the weights after them.
template <class T>
TensorView<T> streams_in(const HyperConnectionSpec& spec, TensorView<T> x) {
  return x.columns_from(0, x.columns() - spec.lagging_weights());
}

// The weights after the streams.
template <class T>
TensorView<T> weights_after(const HyperConnectionSpec& spec, TensorView<T> x) {
  return x.columns_from(x.columns() - spec.lagging_weights(), spec.lagging_weights());
}

}  // namespace

StreamWeights::StreamWeights(WeightLoader& loader, const HyperConnectionSpec& spec,
                             const std::vector<std::size_t>& groups, std::size_t hidden_size,
                             const HyperConnectionNames& names)
    : norm_eps_(spec.norm_eps) {
  const std::size_t weights = std::accumulate(groups.begin(), groups.end(), std::size_t{0});
  fn_ = loader.whole_tensor({names.fn,
                             {weights, spec.streams * hidden_size},
                             "weights of hc_mult streams",
                             "hc_mult x hidden_size"});
  base_ = loader.whole_vector(names.base, weights, "weights of hc_mult streams");
  const std::vector<float> factors =
      loader.whole_vector(names.scale, groups.size(), "one factor per kind of weight");
  for (std::size_t i = 0; i < groups.size(); ++i) scale_.insert(scale_.end(), groups[i], factors[i]);
}

TensorView<float> StreamWeights::operator()(TensorView<const float> x, const StepContext& step) const {
  const TensorView<float> weights = step.workspace.take(x.rows(), base_.size());
  kernels::router_logits(x, {fn_.data(), base_.size(), x.columns()}, weights);
  kernels::normalize_weights(x, norm_eps_, scale_, base_, weights);
  return weights;
}

HyperConnection::HyperConnection(WeightLoader& loader, const HyperConnectionSpec& spec,
                                 std::size_t hidden_size, const HyperConnectionNames& names)
    : spec_(spec), weights_(loader, spec, groups_of(spec), hidden_size, names) {}

HyperConnection::Entered HyperConnection::enter(TensorView<const float> streams,
                                                const StepContext& step) const {
  const TensorView<const float> x = streams_in(spec_, streams);
  const TensorView<float> input = step.workspace.take(x.rows(), x.columns() / spec_.streams);
  const TensorView<float> weights = weights_(x, step);
  const TensorView<float> on_enter = weights.columns_from(0, spec_.streams);
  const TensorView<float> on_leave = weights.columns_from(spec_.streams, spec_.streams);
  const bool mixes = spec_.sinkhorn_steps > 0;
  const TensorView<float> mix =
      weights.columns_from(2 * spec_.streams, mixes ? spec_.streams * spec_.streams : 0);
  kernels::sigmoid_gates(1.0F, spec_.eps, on_enter);
  kernels::sigmoid_gates(spec_.magnitude, mixes ? 0.0F : spec_.eps, on_leave);
  if (mixes) kernels::sinkhorn(spec_.streams, spec_.sinkhorn_steps, spec_.eps, mix);
  kernels::sum_streams(spec_.lags ? weights_after(spec_, streams) : on_enter, x, input);
  return {input, on_leave, mix, on_enter.columns_from(0, spec_.lagging_weights())};
}

void HyperConnection::leave(TensorView<const float> y, const Entered& entered,
                            TensorView<float> streams) const {
  const TensorView<float> x = streams_in(spec_, streams);
  if (spec_.sinkhorn_steps > 0)
    kernels::combine_streams(entered.mix, entered.on_leave, y, x);
  else
    kernels::add_to_streams(entered.on_leave, y, x);
  kernels::copy_rows(entered.next, weights_after(spec_, streams));
}

LastConnection::LastConnection(WeightLoader& loader, const HyperConnectionSpec& spec, std::size_t hidden_size,
                               const HyperConnectionNames& names)
    : spec_(spec) {
  if (!spec.ends_in_mean && !spec.lags)
    weights_.emplace(loader, spec, std::vector<std::size_t>{spec.streams}, hidden_size, names);
}

TensorView<float> LastConnection::operator()(TensorView<const float> x, const StepContext& step) const {
  const TensorView<const float> streams = streams_in(spec_, x);
  const TensorView<float> sum = step.workspace.take(x.rows(), streams.columns() / spec_.streams);
  if (spec_.lags) {
    kernels::sum_streams(weights_after(spec_, x), streams, sum);
    return sum;
  }
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> weights =
      weights_ ? (*weights_)(streams, step) : step.workspace.take(x.rows(), spec_.streams);
  if (weights_) {
    kernels::sigmoid_gates(1.0F, spec_.eps, weights);
  } else if (!weights.empty()) {
    std::fill_n(weights.data(), weights.size(), 1.0F / static_cast<float>(spec_.streams));
  }
  kernels::sum_streams(weights, streams, sum);
  return sum;
}

}  // namespace tp

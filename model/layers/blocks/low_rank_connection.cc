#include "model/layers/blocks/low_rank_connection.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/experts.h"
#include "model/kernels/streams.h"

#include <algorithm>

namespace tp {
namespace {

constexpr const char* kConnected = "hc_count x hidden_size";

std::optional<Buffer<float>> load_inject(WeightLoader& loader, const LowRankConnectionSpec& spec,
                                         std::size_t hidden_size, const std::string& name) {
  if (name.empty()) return std::nullopt;
  return loader.whole_weight({name, {spec.streams, spec.streams * hidden_size}, "hc_count", kConnected});
}

}  // namespace

LowRankConnection::LowRankConnection(WeightLoader& loader, const LowRankConnectionSpec& spec,
                                     std::size_t hidden_size, const LowRankConnectionNames& names)
    : streams_(spec.streams),
      norm_(spec.norm, hidden_size,
            loader.whole_vector(tensor_names::weight_of(names.norm), spec.streams * hidden_size, kConnected)),
      down_(whole_layer(loader,
                        {names.down, {spec.rank, spec.streams * hidden_size}, "hc_lowrank", kConnected})),
      up_(whole_layer(loader, {names.up, {spec.streams * hidden_size, spec.rank}, kConnected, "hc_lowrank"})),
      inject_(load_inject(loader, spec, hidden_size, names.inject)) {}

TensorView<float> LowRankConnection::normed(TensorView<const float> streams, const StepContext& step) const {
  const TensorView<float> copy = step.workspace.take(streams.rows(), streams.columns());
  kernels::copy_rows(streams, copy);
  norm_.apply_in_place(copy);
  return copy;
}

void LowRankConnection::mix(TensorView<float> normed, const StepContext& step,
                            TensorView<float> input) const {
  const TensorView<float> low = down_(normed, step);
  kernels::scale(1.0F / static_cast<float>(streams_), low);
  kernels::activate(kernels::Activation::silu, low);
  kernels::multiply_activated(kernels::Activation::sigmoid, up_(low, step), normed);
  kernels::mean_of_streams(normed, input);
}

TensorView<float> LowRankConnection::mixed(TensorView<const float> streams, const StepContext& step) const {
  const TensorView<float> input = step.workspace.take(streams.rows(), streams.columns() / streams_);
  const Workspace::Frame frame(step.workspace);
  mix(normed(streams, step), step, input);
  return input;
}

LowRankConnection::Entered LowRankConnection::enter(TensorView<const float> streams,
                                                    const StepContext& step) const {
  const TensorView<float> input = step.workspace.take(streams.rows(), streams.columns() / streams_);
  const TensorView<float> on_leave = step.workspace.take(streams.rows(), streams_);
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> all = normed(streams, step);
  kernels::router_logits(all, {inject_->data(), streams_, all.columns()}, on_leave);
  kernels::scale(1.0F / static_cast<float>(streams_), on_leave);
  kernels::sigmoid_gates(2.0F, 0.0F, on_leave);
  mix(all, step, input);
  return {input, on_leave};
}

void LowRankConnection::leave(TensorView<const float> y, const Entered& entered,
                              TensorView<float> streams) const {
  kernels::add_to_streams(entered.on_leave, y, streams);
}

}  // namespace tp

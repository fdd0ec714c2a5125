#include "model/layers/blocks/low_rank_connection.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/experts.h"
#include "model/kernels/streams.h"

#include <vector>

namespace tp {
namespace {

constexpr const char* kConnected = "hc_count x hidden_size";

std::optional<Buffer<float>> load_inject(WeightLoader& loader, const LowRankConnectionSpec& spec,
                                         std::size_t hidden_size, const std::string& name) {
  if (name.empty()) return std::nullopt;
  return loader.whole_weight({name, {spec.streams, spec.streams * hidden_size}, "hc_count", kConnected});
}

// This rank's channels of every stream.
std::vector<OwnedRows> rows_of_channels(const StoredLayer& up, std::size_t streams, Range channels) {
  const std::size_t hidden_size = up.shape.rows / streams;
  std::vector<OwnedRows> rows;
  for (std::size_t s = 0; s < streams; ++s)
    rows.push_back({up, {s * hidden_size + channels.begin, s * hidden_size + channels.end}});
  return rows;
}

// Columns of all ranks, from each rank's own: the sum of numbers and zeros is exact. Overwrites `whole`,
// [tokens, all columns].
void join_columns(TensorView<const float> local, Range own, const StepContext& step,
                  TensorView<float> whole) {
  kernels::clear(whole);
  kernels::copy_rows(local, whole.columns_from(own.begin, own.size()));
  sum_or_count(step, PartialSum(whole), whole);
}

}  // namespace

LowRankConnection::LowRankConnection(WeightLoader& loader, const LowRankConnectionSpec& spec,
                                     std::size_t hidden_size, const LowRankConnectionNames& names)
    : streams_(spec.streams),
      rank_(spec.rank),
      own_low_(split_by_weights(spec.rank, loader.tp())),
      own_channels_(shard_columns(hidden_size, loader.tp())),
      norm_(spec.norm, hidden_size,
            loader.whole_vector(tensor_names::weight_of(names.norm), spec.streams * hidden_size, kConnected)),
      down_(loader,
            std::vector<OwnedRows>{
                {{names.down, {spec.rank, spec.streams * hidden_size}, "hc_lowrank", kConnected}, own_low_}},
            false),
      up_(loader,
          rows_of_channels({names.up, {spec.streams * hidden_size, spec.rank}, kConnected, "hc_lowrank"},
                           spec.streams, own_channels_),
          false),
      inject_(load_inject(loader, spec, hidden_size, names.inject)) {}

TensorView<float> LowRankConnection::normed(TensorView<const float> streams, const StepContext& step) const {
  const TensorView<float> copy = step.workspace.take(streams.rows(), streams.columns());
  kernels::copy_rows(streams, copy);
  norm_.apply_in_place(copy);
  return copy;
}

void LowRankConnection::mix(TensorView<const float> normed, const StepContext& step,
                            TensorView<float> input) const {
  const TensorView<float> low = step.workspace.take(normed.rows(), rank_);
  join_columns(down_(normed, step), own_low_, step, low);
  kernels::scale(1.0F / static_cast<float>(streams_), low);
  kernels::activate(kernels::Activation::silu, low);
  const std::size_t channels = own_channels_.size();
  const TensorView<float> gated = step.workspace.take(normed.rows(), streams_ * channels);
  for (std::size_t s = 0; s < streams_; ++s)
    kernels::copy_rows(normed.columns_from(s * input.columns() + own_channels_.begin, channels),
                       gated.columns_from(s * channels, channels));
  kernels::multiply_activated(kernels::Activation::sigmoid, up_(low, step), gated);
  const TensorView<float> own = step.workspace.take(normed.rows(), channels);
  kernels::mean_of_streams(gated, own);
  join_columns(own, own_channels_, step, input);
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

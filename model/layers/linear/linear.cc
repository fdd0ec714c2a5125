#include "model/layers/linear/linear.h"

#include "model/kernels/elementwise.h"

#include <type_traits>

namespace tp {
namespace {

std::size_t rows_of(TensorView<float> x) { return x.rows(); }
std::size_t rows_of(const kernels::TiledRows& x) { return x.rows; }

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(WeightLoader& loader, std::span<const OwnedRows> parts, bool bias)
    : weights_(loader.rows_of_weights(parts)), adapters_(loader, parts) {
  if (bias) bias_ = loader.rows_of_biases(parts);
}

std::size_t ColumnParallelLinear::out_features() const {
  std::size_t sum = 0;
  for (const LocalWeight& weight : weights_) sum += weight.out_features();
  return sum;
}

TensorView<float> ColumnParallelLinear::operator()(TensorView<const float> x, const StepContext& step) const {
  const TensorView<float> y = step.workspace.take(x.rows(), out_features());
  std::size_t first = 0;
  for (const LocalWeight& weight : weights_) {
    const Workspace::Frame frame(step.workspace);
    const TensorView<float> scratch = step.workspace.take(1, weight.scratch_floats(x.rows()));
    weight.multiply_into(x, scratch, y.columns_from(first, weight.out_features()));
    first += weight.out_features();
  }
  adapters_.add_to(x, step, y);
  if (!bias_.empty()) kernels::add_bias(bias_, y);
  return y;
}

TensorView<float> ColumnParallelLinear::gated(TensorView<const float> x, kernels::Activation activation,
                                              const StepContext& step) const {
  if (is_one_product(step)) return weights_.front().multiply_gated(x, activation, step.workspace);
  const TensorView<float> y = step.workspace.take(x.rows(), out_features() / 2);
  const Workspace::Frame frame(step.workspace);
  kernels::activate_and_multiply(activation, (*this)(x, step), y);
  return y;
}

LocalActivations ColumnParallelLinear::gated_for(const RowParallelLinear& next, TensorView<const float> x,
                                                 kernels::Activation activation,
                                                 const StepContext& step) const {
  if (is_one_product(step) && next.takes_tiles(x.rows(), step) &&
      weights_.front().can_gate_to_tiles(x.rows())) {
    return weights_.front().multiply_gated_to_tiles(x, activation, step.workspace);
  }
  return gated(x, activation, step);
}

ColumnParallelLinear whole_layer(WeightLoader& loader, const StoredLayer& layer) {
  return {loader, std::vector<OwnedRows>{{layer, {0, layer.shape.rows}}}, false};
}

RowParallelLinear::RowParallelLinear(WeightLoader& loader, const StoredLayer& layer, Range columns, bool bias,
                                     std::size_t leaf)
    : weight_(loader.columns_of_weight(layer, columns, leaf)), adapters_(loader, layer, columns, leaf) {
  if (bias && loader.tp().is_first()) {
    const std::vector<OwnedRows> whole = {{layer, {0, layer.shape.rows}}};
    bias_ = loader.rows_of_biases(whole);
  }
}

template <class AddBias>
PartialSum RowParallelLinear::multiply(const LocalActivations& x, const StepContext& step,
                                       const AddBias& add_bias) const {
  const auto add_adapters = [&](const auto& rows, auto y) {
    if constexpr (std::is_same_v<std::decay_t<decltype(rows)>, TensorView<float>>)
      adapters_.add_to(rows, step, y);
  };
  return std::visit(
      [&](const auto& rows) {
        if (!weight_.has_leaves()) {
          const TensorView<float> y = weight_.multiply(rows, step.workspace);
          add_adapters(rows, y);
          if (!bias_.empty()) add_bias(y);
          return PartialSum(y);
        }
        const std::size_t tokens = rows_of(rows);
        const TensorView<double> y = step.workspace.take_doubles(tokens, weight_.out_features());
        weight_.multiply_leaves(rows, step.workspace, y);
        add_adapters(rows, y);
        if (!bias_.empty()) add_bias(y);
        return PartialSum(y);
      },
      x);
}

PartialSum RowParallelLinear::operator()(const LocalActivations& x, const StepContext& step) const {
  return multiply(x, step, [&](auto y) { kernels::add_bias(bias_, y); });
}

PartialSum RowParallelLinear::with_scaled_bias(TensorView<float> x, std::span<const float> factors,
                                               const StepContext& step) const {
  return multiply(x, step, [&](auto y) { kernels::add_bias(bias_, factors, y); });
}

PartialSum RowParallelLinear::nothing_but(std::span<const float> bias, std::size_t tokens,
                                          const StepContext& step) const {
  const auto begin = [&](auto y) {
    kernels::clear(y);
    if (!bias.empty()) kernels::add_bias(bias, y);
    return PartialSum(y);
  };
  if (weight_.has_leaves()) return begin(step.workspace.take_doubles(tokens, weight_.out_features()));
  return begin(step.workspace.take(tokens, weight_.out_features()));
}

}  // namespace tp

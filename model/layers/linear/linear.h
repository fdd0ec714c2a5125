// Column-parallel and row-parallel layers: all the arithmetic of tensor parallelism. Weights are
// [out_features, in_features], and y = x . weight^T + bias.
#pragma once

#include "model/layers/linear/layer_adapters.h"
#include "model/layers/linear/step_context.h"
#include "model/weights/local_weight.h"
#include "model/weights/weight_loader.h"
#include "parallel/shard/partial_sum.h"
#include "tp/tensor.h"

#include <span>
#include <variant>
#include <vector>

namespace tp {

// The input of a row-parallel layer, [tokens, local in_features], as floats or already rounded and tiled for
// a matrix unit.
using LocalActivations = std::variant<TensorView<float>, kernels::TiledRows>;

class RowParallelLinear;

// Each rank owns some output features and reads the whole input. No communication is needed.
class ColumnParallelLinear {
 public:
  // The owned rows of all `parts` are multiplied in one matmul, or in one matmul per run of rows that have
  // the same type. Throws CheckpointError.
  ColumnParallelLinear(WeightLoader& loader, std::span<const OwnedRows> parts, bool bias);

  // x: [tokens, in_features] -> [tokens, local out_features]
  TensorView<float> operator()(TensorView<const float> x, const StepContext& step) const;

  // activation(gates) * ups, for a layer that outputs gates, then ups. -> [tokens, local out_features / 2]
  TensorView<float> gated(TensorView<const float> x, kernels::Activation activation,
                          const StepContext& step) const;
  // Like gated(), but returns tiles if both layers support them.
  LocalActivations gated_for(const RowParallelLinear& next, TensorView<const float> x,
                             kernels::Activation activation, const StepContext& step) const;

 private:
  std::size_t out_features() const;
  // Whether one matmul computes the output, so that it can also apply a gate.
  bool is_one_product(const StepContext& step) const {
    return bias_.empty() && weights_.size() == 1 && !adapters_.change(step);
  }

  std::vector<LocalWeight> weights_;  // stacked vertically
  std::vector<float> bias_;           // [local out_features], or empty
  LayerAdapters adapters_;
};

// A layer that is small, and therefore whole on every rank. Throws CheckpointError.
ColumnParallelLinear whole_layer(WeightLoader& loader, const StoredLayer& layer);

// Each rank owns some input features and reads only its part of the input. The result is this rank's addend
// in the sum over ranks.
class RowParallelLinear {
 public:
  // `columns`: the owned input features. `leaf`: see PackedLayout. Only the first rank holds the bias. Throws
  // CheckpointError.
  RowParallelLinear(WeightLoader& loader, const StoredLayer& layer, Range columns, bool bias,
                    std::size_t leaf = 0);

  // x: [tokens, local in_features] -> this rank's addend, [tokens, out_features]
  PartialSum operator()(const LocalActivations& x, const StepContext& step) const;
  // Like operator(), but scales the bias by each token's factor. factors: [tokens]
  PartialSum with_scaled_bias(TensorView<float> x, std::span<const float> factors,
                              const StepContext& step) const;

  // An addend, [tokens, out_features], to which this layer's results can be added: `bias` in each row, or
  // zeros if it is empty.
  PartialSum nothing_but(std::span<const float> bias, std::size_t tokens, const StepContext& step) const;

  // Whether an input of this many tokens may be tiled. Adapters need floats.
  bool takes_tiles(std::size_t tokens, const StepContext& step) const {
    return weight_.takes_tiles(tokens) && !adapters_.change(step);
  }

 private:
  // Multiplies, then calls add_bias(product) if this rank holds the bias.
  template <class AddBias>
  PartialSum multiply(const LocalActivations& x, const StepContext& step, const AddBias& add_bias) const;

  LocalWeight weight_;
  std::vector<float> bias_;  // [out_features], or empty
  LayerAdapters adapters_;
};

}  // namespace tp

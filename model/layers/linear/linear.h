// The linear layers of a rank: all of tensor parallelism's arithmetic is here. Weights are [out_features,
// in_features] and y = x . weight^T + bias.
#pragma once

#include "model/layers/linear/step_context.h"
#include "model/weights/local_weight.h"
#include "model/weights/weight_loader.h"
#include "parallel/shard/partial_sum.h"
#include "tp/tensor.h"

#include <span>
#include <variant>
#include <vector>

namespace tp {

// The input of a row-parallel layer, [tokens, local in_features], perhaps rounded to the tiles of a matrix
// unit already.
using LocalActivations = std::variant<TensorView<float>, kernels::TiledRows>;

class RowParallelLinear;

// A rank owns output features: it needs the whole input, and nothing is communicated.
class ColumnParallelLinear {
 public:
  // The owned rows of one or several stored layers become one matmul, or one for each run of rows of one
  // type. Throws CheckpointError.
  ColumnParallelLinear(WeightLoader& loader, std::span<const OwnedRows> parts, bool bias);

  // x: [tokens, in_features] -> [tokens, local out_features]
  TensorView<float> operator()(TensorView<const float> x, const StepContext& step) const;

  // activation(gates) * ups of a layer of both, gates first. -> [tokens, local out_features / 2]
  TensorView<float> gated(TensorView<const float> x, kernels::Activation activation,
                          const StepContext& step) const;
  // Gated activations in the form that suits the next layer best.
  LocalActivations gated_for(const RowParallelLinear& next, TensorView<const float> x,
                             kernels::Activation activation, const StepContext& step) const;

 private:
  std::size_t out_features() const;

  std::vector<LocalWeight> weights_;  // stacked vertically
  std::vector<float> bias_;           // [local out_features] or empty
};

// A rank owns input features: it has its part of the input, and its result is an addend of the sum over
// ranks.
class RowParallelLinear {
 public:
  // `columns` are the owned input features; `leaf`: see PackedLayout. Only the first rank has the bias.
  // Throws CheckpointError.
  RowParallelLinear(WeightLoader& loader, const StoredLayer& layer, Range columns, bool bias,
                    std::size_t leaf = 0);

  // x: [tokens, local in_features] -> an addend of [tokens, out_features]
  PartialSum operator()(const LocalActivations& x, const StepContext& step) const;
  // Multiplies with a factor of the bias for every token, [tokens].
  PartialSum with_scaled_bias(TensorView<float> x, std::span<const float> factors,
                              const StepContext& step) const;

  // An addend of nothing but zeros, to which others of this layer can be added: [tokens, out_features].
  PartialSum nothing(std::size_t tokens, const StepContext& step) const;

  // Whether x of this many tokens may be in tiles.
  bool takes_tiles(std::size_t tokens) const { return weight_.takes_tiles(tokens); }

 private:
  // Calls add_bias(y) for the product, if this rank has the bias.
  template <class AddBias>
  PartialSum multiply(const LocalActivations& x, const StepContext& step, const AddBias& add_bias) const;

  LocalWeight weight_;
  std::vector<float> bias_;  // [out_features], or empty
};

}  // namespace tp

// The part of a block that reads the layer's own input.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"

#include <cstddef>
#include <optional>

namespace tp {

// See LayerInputSpec. The matrices are small, so every rank has all of them and computes the whole result.
class LayerInput {
 public:
  // Throws CheckpointError.
  LayerInput(WeightLoader& loader, const LayerInputSpec& spec, std::size_t hidden_size,
             const LayerInputNames& names);

  // projection(activation(gate(x)) * input), before the norm. x: [tokens, hidden_size] -> [tokens,
  // hidden_size], equal on every rank.
  TensorView<float> operator()(TensorView<const float> x, const StepContext& step) const;
  const std::optional<Norm>& norm() const { return norm_; }

 private:
  Activation activation_;
  ColumnParallelLinear gate_;        // [size, hidden_size]
  ColumnParallelLinear projection_;  // [hidden_size, size]
  std::optional<Norm> norm_;
};

}  // namespace tp

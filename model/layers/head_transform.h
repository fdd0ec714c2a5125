// A transform that is applied to hidden states before the LM head.
#pragma once

#include "model/config/spec.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"

#include <cstddef>
#include <optional>

namespace tp {

// norm(activation(dense(x))); norm and activation are optional. Every rank needs the whole result, so every
// rank holds the whole transform. This costs little, because the transform is much smaller than the LM head.
class HeadTransform {
 public:
  // Throws CheckpointError.
  HeadTransform(WeightLoader& loader, const TensorNames& names, const HeadTransformSpec& spec,
                std::size_t hidden_size);

  // x: [rows, hidden_size] -> [rows, size]
  TensorView<float> operator()(TensorView<const float> x, const StepContext& step) const;

 private:
  ColumnParallelLinear dense_;
  std::optional<Activation> activation_;
  std::optional<Norm> norm_;
};

}  // namespace tp

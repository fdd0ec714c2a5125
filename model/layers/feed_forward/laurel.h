// The addend of low rank in a block's first residual connection.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"

#include <cstddef>

namespace tp {

// x + norm(right(left(x))), see LaurelSpec. The matrices are small, so every rank has all of them and
// computes the whole result.
class Laurel {
 public:
  // Throws CheckpointError.
  Laurel(WeightLoader& loader, const LaurelSpec& spec, std::size_t hidden_size, const LaurelNames& names);

  // x: [tokens, hidden_size] -> [tokens, hidden_size], equal on every rank.
  TensorView<float> operator()(TensorView<const float> x, const StepContext& step) const;

 private:
  ColumnParallelLinear left_;   // [rank, hidden_size]
  ColumnParallelLinear right_;  // [hidden_size, rank]
  Norm norm_;
};

}  // namespace tp

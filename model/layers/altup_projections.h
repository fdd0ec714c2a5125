// The beginning and the end of AltUp's streams.
#pragma once

#include "model/layers/blocks/residual.h"
#include "model/layers/linear/linear.h"

#include <cstddef>
#include <vector>

namespace tp {

// See AltUpSpec. Every rank has all projections.
class AltUpProjections {
 public:
  // Throws CheckpointError.
  AltUpProjections(WeightLoader& loader, const AltUpSpec& spec, std::size_t hidden_size,
                   const AltUpStreamNames& names);

  // Replaces all streams but the first, which are equal to it, by its projections.
  void begin(Residual& x, const StepContext& step) const;
  // The mean of the first stream and of projections of the others. x: [rows, streams * hidden_size] -> [rows,
  // hidden_size]
  TensorView<float> end(TensorView<const float> x, const StepContext& step) const;

 private:
  std::vector<ColumnParallelLinear> begin_;  // [streams - 1], each [hidden_size, hidden_size]
  std::vector<ColumnParallelLinear> end_;    // like begin_
};

}  // namespace tp

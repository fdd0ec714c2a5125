// A short convolution that replaces attention, with token-dependent gates before and after it.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/layers/attention/causal_convolution.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/step_context.h"
#include "model/memory/state_cache.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <vector>

namespace tp {

// out(after * convolution(before * value)), where `before`, `after` and `value` are projections of x.
// Channels are divided among ranks in the same way as the columns of an MLP.
class ShortConvolution {
 public:
  // Throws CheckpointError.
  ShortConvolution(WeightLoader& loader, const ShortConvolutionSpec& spec, std::size_t hidden_size,
                   const BlockNames& names);

  // x: [tokens, hidden_size] -> this rank's addend, [tokens, hidden_size]. Advances the states of the batch's
  // sequences.
  PartialSum operator()(TensorView<const float> x, const StepContext& step) const;

  // Size of one sequence's state on this rank, in floats.
  std::size_t state_floats() const { return conv_.state_floats(); }
  // A part of this state for each unit of channels. Throws ConfigError if ranks share a unit.
  std::vector<StatePart> state_parts() const;

 private:
  ShortConvolution(WeightLoader& loader, const ShortConvolutionSpec& spec, std::size_t hidden_size,
                   const BlockNames& names, Range channels);

  ShortConvolutionSpec spec_;
  Range own_;                     // local channels
  ColumnParallelLinear in_proj_;  // [3 * channels, hidden_size]: before, after and value, stacked vertically
  CausalConvolution conv_;
  RowParallelLinear out_proj_;  // [hidden_size, channels]
};

}  // namespace tp

// The Mamba-1 mixer, a recurrent layer that replaces attention.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/layers/attention/causal_convolution.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"
#include "model/layers/linear/step_context.h"
#include "model/memory/state_cache.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// Each channel of x passes a convolution and then kernels::selective_scan. The output is multiplied by
// silu(z). x and z are projections of the hidden state. B, C and a vector are projections
// of x, and the steps of all channels are a projection of this vector. Ranks divide units of channels. A
// state contains the convolution's last inputs, [conv_kernel - 1, channels], then that of the recurrence.
class Mamba1 {
 public:
  // If ranks outnumber units, some ranks have none. Throws CheckpointError.
  Mamba1(WeightLoader& loader, const Mamba1Spec& spec, std::size_t hidden_size, const BlockNames& names);

  // x: [tokens, hidden_size] -> this rank's addend, [tokens, hidden_size]. Advances the states of the batch's
  // sequences. Collective, except in shape-only steps: a small all-reduce adds up the projections of x.
  // Throws CommError.
  PartialSum operator()(TensorView<const float> x, const StepContext& step) const;

  // Size of one sequence's state on this rank, in floats.
  std::size_t state_floats() const;
  // A part of this state for each unit of channels.
  std::vector<StatePart> state_parts() const;

 private:
  struct Norms {
    Norm dt;
    Norm b;
    Norm c;
  };

  Mamba1(WeightLoader& loader, const Mamba1Spec& spec, std::size_t hidden_size, const BlockNames& names,
         Range units);
  static std::optional<Norms> load_norms(WeightLoader& loader, const Mamba1Spec& spec,
                                         const Mamba1Names& names);

  // The vector of dt, B and C, stacked: [tokens, dt_rank + 2 * state_size]. x: [tokens, local channels]
  TensorView<float> project(TensorView<float> x, const StepContext& step) const;

  Mamba1Spec spec_;
  Range units_;
  Range own_;                     // local channels
  ColumnParallelLinear in_proj_;  // [2 * channels, hidden_size]: x and z, stacked vertically
  CausalConvolution conv_;
  RowParallelLinear x_proj_;  // [dt_rank + 2 * state_size, channels]
  std::optional<Norms> norms_;
  ColumnParallelLinear dt_proj_;  // [channels, dt_rank]
  std::vector<float> rate_;       // as kernels::selective_scan expects it
  std::vector<float> direct_;
  RowParallelLinear out_proj_;  // [hidden_size, channels]
};

}  // namespace tp

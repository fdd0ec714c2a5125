// Experts in addition to a block's MLP.
#pragma once

#include "model/layers/blocks/residual.h"
#include "model/layers/feed_forward/mixture_of_experts.h"
#include "model/layers/linear/norm.h"

#include <cstddef>
#include <optional>

namespace tp {

// See ParallelExpertsSpec.
class ParallelExperts {
 public:
  // Throws ConfigError or CheckpointError.
  ParallelExperts(WeightLoader& loader, const ParallelExpertsSpec& spec, std::size_t hidden_size,
                  const BlockNames& names);

  // norm(mlp) + norm(experts(norm(x))), [tokens, hidden_size]. mlp: this rank's addend of the MLP's output.
  // Two all-reduces; throws CommError.
  TensorView<float> with(PartialSum mlp, const Residual& x, const StepContext& step) const;

 private:
  MixtureOfExperts experts_;
  std::optional<Norm> mlp_norm_;
  Norm input_norm_;
  std::optional<Norm> output_norm_;
};

}  // namespace tp

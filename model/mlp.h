// The feed-forward half of a block.
#pragma once

#include "model/linear.h"
#include "model/spec.h"
#include "model/tensor_names.h"

#include <cstddef>

namespace tp {

// SwiGLU: down(silu(gate(x)) * up(x)). A rank owns columns of gate and up, and the same columns of down.
// Source: Shazeer, GLU Variants Improve Transformer, 2020.
class GatedMlp {
 public:
  GatedMlp(WeightLoader& loader, const GatedMlpSpec& spec, std::size_t hidden_size,
           const tensor_names::Block& names);

  // x: [tokens, hidden_size] -> an addend of [tokens, hidden_size]
  PartialSum operator()(TensorView<const float> x, Workspace& workspace) const;

  std::size_t bytes() const { return gate_up_proj_.bytes() + down_proj_.bytes(); }

 private:
  GatedMlp(WeightLoader& loader, const GatedMlpSpec& spec, std::size_t hidden_size,
           const tensor_names::Block& names, Range columns);

  std::size_t local_size_;             // this rank's share of intermediate_size
  ColumnParallelLinear gate_up_proj_;  // [2 * local_size, hidden_size]: gates below each other, then ups
  RowParallelLinear down_proj_;        // [hidden_size, local_size]
};

// Its bytes on one rank, with weights of this type.
std::size_t mlp_bytes(const GatedMlpSpec& spec, std::size_t hidden_size, RankOf part, WeightType type);

// Weights and biases that one rank holds.
std::size_t count_mlp_parameters(const GatedMlpSpec& spec, std::size_t hidden_size, RankOf part);

// Floats that it takes from the workspace for a step of `tokens` tokens.
std::size_t mlp_workspace(const GatedMlpSpec& spec, std::size_t hidden_size, RankOf part, std::size_t tokens);

}  // namespace tp

// The feed-forward half of a block.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/token_shift.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// down(activation(gate(x)) * up(x)); SwiGLU if the activation is silu. Each rank owns a range of intermediate
// features: rows of gate and up, columns of down. Source: Shazeer, GLU Variants Improve Transformer, 2020.
class GatedMlp {
 public:
  GatedMlp(WeightLoader& loader, const GatedMlpSpec& spec, std::size_t hidden_size, const BlockNames& names);

  // x: [tokens, hidden_size] -> this rank's addend, [tokens, hidden_size]. Collective if the gates have a
  // cutoff; throws CommError.
  PartialSum operator()(TensorView<const float> x, const StepContext& step) const;

 private:
  GatedMlp(WeightLoader& loader, const GatedMlpSpec& spec, std::size_t hidden_size, const BlockNames& names,
           Range columns);

  // The result with a cutoff, or with factors of the gate and of the output.
  PartialSum scaled(TensorView<const float> x, const StepContext& step) const;
  // Applies the cutoff, for which one small all-reduce adds up two numbers per token. gate: [tokens,
  // local_size].
  void cut_off(TensorView<float> gate, const StepContext& step) const;

  Activation activation_;
  float gate_scale_;
  float output_scale_;
  float limit_;
  bool limits_gate_;
  std::optional<Situ> situ_;
  std::optional<float> gate_cutoff_;
  std::size_t intermediate_size_;
  std::size_t leaf_;                   // columns of a leaf; 0: no leaves
  ColumnParallelLinear gate_up_proj_;  // [2 * local_size, hidden_size]: gates, then ups
  RowParallelLinear down_proj_;        // [hidden_size, local_size]
};

// down(activation(up(x))), divided among ranks like GatedMlp. x may be a mix with the input of the token
// before: x + share * shift.
class PlainMlp {
 public:
  PlainMlp(WeightLoader& loader, const PlainMlpSpec& spec, std::size_t hidden_size, const BlockNames& names);

  // x: [tokens, hidden_size] -> this rank's addend, [tokens, hidden_size]
  PartialSum operator()(TensorView<const float> x, const StepContext& step) const;

  // Null if x is not mixed. Its state is the layer's.
  const TokenShift* token_shift() const { return shift_ ? &*shift_ : nullptr; }

 private:
  PlainMlp(WeightLoader& loader, const PlainMlpSpec& spec, std::size_t hidden_size, const BlockNames& names,
           Range columns);

  Activation activation_;
  std::optional<kernels::Xielu> xielu_;  // instead of activation_
  std::optional<TokenShift> shift_;
  std::vector<float> share_;      // [hidden_size], or empty
  ColumnParallelLinear up_proj_;  // [local_size, hidden_size]
  RowParallelLinear down_proj_;   // [hidden_size, local_size]
};

}  // namespace tp

// The time mix of RWKV-7, a recurrent layer that replaces attention.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"
#include "model/layers/linear/step_context.h"
#include "model/layers/linear/token_shift.h"
#include "model/memory/state_cache.h"
#include "parallel/shard/shard.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// Each projection reads its own mix of a token's input and that of the token before. Receptances, keys and
// values are projected directly, and decays, strengths, gates and the shares of the first layer's values
// through small vectors. Ranks divide the heads. A state contains the last token's input, then the matrices
// of the heads (see kernels/wkv.h). The first layer writes its values to StepContext::first_values, and the
// other layers read them there.
class Rwkv7 {
 public:
  // If ranks outnumber heads, some ranks have none. Throws CheckpointError.
  Rwkv7(WeightLoader& loader, const Rwkv7Spec& spec, std::size_t hidden_size, const BlockNames& names);

  // x: [tokens, hidden_size] -> this rank's addend, [tokens, hidden_size]. Advances the states of the batch's
  // sequences.
  PartialSum operator()(TensorView<const float> x, const StepContext& step) const;

  // Size of one sequence's state on this rank, in floats.
  std::size_t state_floats() const;
  // Part 0, which every rank has, is the last token's input. A part for each head follows.
  std::vector<StatePart> state_parts() const;

 private:
  // The inputs of projections.
  enum Input : std::size_t { kReceptance, kDecay, kKey, kValue, kStrength, kGate, kInputs };
  // The share of the token before in each input, [hidden_size].
  using Mixes = std::array<std::vector<float>, kInputs>;

  // A projection through a small vector, which every rank computes.
  struct LowRank {
    ColumnParallelLinear down;  // [rank, hidden_size]
    ColumnParallelLinear up;    // [local_size, rank]
  };

  // Projections of a step's tokens, [tokens, local_size].
  struct Projected {
    TensorView<float> receptance;
    TensorView<float> decay;
    TensorView<float> key;
    TensorView<float> value;
    TensorView<float> strength;
    TensorView<float> gate;
  };

  Rwkv7(WeightLoader& loader, const Rwkv7Spec& spec, std::size_t hidden_size, const Rwkv7Names& names,
        Range heads, Range own);
  static Mixes load_mixes(WeightLoader& loader, const Rwkv7Names& names, std::size_t hidden_size);

  Projected project(TensorView<const float> x, const StepContext& step) const;
  // The value with its share of the first layer's, in place. `input`: [tokens, hidden_size]
  void mix_with_first(TensorView<const float> input, TensorView<float> value, const StepContext& step) const;
  // The recurrence's output after its norm. Overwrites the arguments.
  TensorView<float> recur(const Projected& projected, const StepContext& step) const;

  Rwkv7Spec spec_;
  Range heads_;  // local heads
  Range own_;    // their channels
  TokenShift shift_;
  Mixes mixes_;
  ColumnParallelLinear r_proj_;  // [local_size, hidden_size], as k_proj_ and v_proj_
  ColumnParallelLinear k_proj_;
  ColumnParallelLinear v_proj_;
  LowRank decay_;
  LowRank strength_;
  std::optional<LowRank> value_share_;  // not in the first layer
  LowRank gate_;
  std::vector<float> removal_gain_;  // [local_size], as the next two
  std::vector<float> key_gain_;
  std::vector<float> bonus_;
  std::vector<Norm> norms_;   // [local heads]
  RowParallelLinear o_proj_;  // [hidden_size, local_size]
};

}  // namespace tp

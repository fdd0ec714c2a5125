// A feed-forward half with many experts, of which only a few compute each token.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/layers/feed_forward/router.h"
#include "model/layers/linear/linear.h"
#include "model/weights/stored_projection.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// The shape of a routed or shared expert.
struct ExpertSpec {
  std::size_t intermediate_size = 0;
  Activation activation = Activation::silu;
  bool bias = false;
  bool weigh_input = false;  // whether a token's weight multiplies the expert's input instead of its result
};

// A gated MLP, divided among ranks like GatedMlp. An expert computes only some rows of a batch, and adds the
// weighted results to an addend that all experts share.
class Expert {
 public:
  Expert(WeightLoader& loader, const ExpertSpec& spec, const StoredExpert& stored);

  // An addend of zeros, to which experts add their results.
  PartialSum nothing(std::size_t tokens, const StepContext& step) const {
    return down_proj_.nothing(tokens, step);
  }

  // x: [tokens, hidden_size]; sum: [tokens, hidden_size].
  void add_to(PartialSum& sum, TensorView<const float> x, const ExpertTokens& tokens,
              const StepContext& step) const;

 private:
  Expert(WeightLoader& loader, const ExpertSpec& spec, const StoredExpert& stored, Range columns);

  Activation activation_;
  bool weigh_input_;
  ColumnParallelLinear gate_up_proj_;  // [2 * local_size, hidden_size]: gates, then ups
  RowParallelLinear down_proj_;        // [hidden_size, local_size]
};

// Every rank owns part of every expert's columns. Ranks therefore have equal work for any choice of experts,
// and one all-reduce adds up the results of all experts.
class MixtureOfExperts {
 public:
  MixtureOfExperts(WeightLoader& loader, const MixtureOfExpertsSpec& spec, std::size_t hidden_size,
                   const BlockNames& names);

  // x: [tokens, hidden_size] -> an addend of [tokens, hidden_size]
  PartialSum operator()(TensorView<const float> x, const StepContext& step) const;

 private:
  void add_shared_expert(PartialSum& sum, TensorView<const float> x, const StepContext& step) const;

  Router router_;
  std::vector<Expert> experts_;
  std::optional<Expert> shared_expert_;  // processes every token
  // [hidden_size]: sigmoid(gate . x) scales the shared expert's result; or empty.
  std::vector<float> shared_expert_gate_;
};

}  // namespace tp

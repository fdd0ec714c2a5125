// A feed-forward half with many experts, only a few of which process each token.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/layers/feed_forward/router.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"
#include "model/weights/stored_projection.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// Size and options of a routed or shared expert.
struct ExpertSpec {
  std::size_t intermediate_size = 0;
  Activation activation = Activation::silu;
  bool gated = true;
  bool bias = false;
  bool weigh_input = false;  // whether a token's weight scales the expert's input instead of its output
  float limit = 0.0F;        // see GatedMlpSpec
  bool limits_gate = false;  // see GatedMlpSpec
  std::optional<Situ> situ{};
};

// A gated or plain MLP, divided among ranks like GatedMlp. An expert processes only some rows of a batch, and
// adds its weighted outputs to an addend that all experts share.
class Expert {
 public:
  Expert(WeightLoader& loader, const ExpertSpec& spec, const StoredExpert& stored);

  // An addend, [tokens, hidden_size], to which experts add their outputs: `bias` in each row, or zeros if it
  // is empty.
  PartialSum nothing_but(std::span<const float> bias, std::size_t tokens, const StepContext& step) const {
    return down_proj_.nothing_but(bias, tokens, step);
  }

  // x, sum: [tokens, hidden_size].
  void add_to(PartialSum& sum, TensorView<const float> x, const ExpertTokens& tokens,
              const StepContext& step) const;

 private:
  Expert(WeightLoader& loader, const ExpertSpec& spec, const StoredExpert& stored, Range columns);

  // Like add_to. step: of the expert's tokens.
  void add_rows_to(PartialSum& sum, TensorView<const float> x, const ExpertTokens& tokens,
                   const StepContext& step) const;
  // activation(gate(x)) * up(x), or activation(up(x)). x: [count, hidden_size] -> [count, local_size]
  TensorView<float> activated(TensorView<const float> x, const StepContext& step) const;

  Activation activation_;
  bool gated_;
  bool weigh_input_;
  float limit_;
  bool limits_gate_;
  std::optional<Situ> situ_;
  ColumnParallelLinear gate_up_proj_;  // [2 * local_size, hidden_size]: gates, if any, then ups
  RowParallelLinear down_proj_;        // [hidden_size, local_size]
};

// Every rank owns part of every expert's columns. Ranks therefore have equal work whichever experts are
// chosen, and one all-reduce sums the outputs of all experts. Experts with a latent need another all-reduce,
// because their sum is projected to the hidden size.
class MixtureOfExperts {
 public:
  MixtureOfExperts(WeightLoader& loader, const MixtureOfExpertsSpec& spec, std::size_t hidden_size,
                   const BlockNames& names);

  // x: [tokens, hidden_size] -> this rank's addend, [tokens, hidden_size]. Throws CommError.
  PartialSum operator()(TensorView<const float> x, const StepContext& step) const {
    return (*this)(x, x, step);
  }
  // Like above, but the router reads other vectors than the experts. router_input: [tokens, hidden_size]
  PartialSum operator()(TensorView<const float> x, TensorView<const float> router_input,
                        const StepContext& step) const;

 private:
  // The projections between hidden states and the vectors of routed experts.
  struct Latent {
    ColumnParallelLinear down;  // [latent_size, hidden_size], whole on every rank
    std::optional<Norm> norm;   // [latent_size]
    RowParallelLinear up;       // [hidden_size, local latent_size]
    Range columns;              // this rank's columns of the latent
  };
  static std::optional<Latent> load_latent(WeightLoader& loader, const MixtureOfExpertsSpec& spec,
                                           std::size_t hidden_size, const ExpertNames& names);

  // This rank's addend in the outputs of the routed experts. x: their input.
  PartialSum routed(TensorView<const float> x, TensorView<const float> router_input,
                    const StepContext& step) const;
  // Like routed(), for experts with a latent. x: [tokens, hidden_size]
  PartialSum routed_in_latent(TensorView<const float> x, TensorView<const float> router_input,
                              const StepContext& step) const;
  void add_shared_expert(PartialSum& sum, TensorView<const float> x, const StepContext& step) const;

  Router router_;
  std::optional<Latent> latent_;
  std::vector<Expert> experts_;
  std::vector<float> output_bias_;       // [hidden_size], on the first rank only; or empty
  std::optional<Expert> shared_expert_;  // processes every token
  // [hidden_size], or empty. sigmoid(gate . x) scales the shared expert's output.
  std::vector<float> shared_expert_gate_;
  float shared_scale_;
};

}  // namespace tp

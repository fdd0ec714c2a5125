// The feed-forward parts of a block, as data.
#pragma once

#include "model/config/attention_spec.h"
#include "model/config/checkpoint_config.h"
#include "model/kernels/simd/vector/activation.h"
#include "model/kernels/situ.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

namespace tp {

using kernels::Situ;

// down(activation(gate(x)) * up(x))
struct GatedMlpSpec {
  std::size_t intermediate_size = 0;
  Activation activation = Activation::silu;
  bool bias = false;
  bool down_bias = false;   // a bias of down only
  float gate_scale = 1.0F;  // factor of gate(x)
  float output_scale = 1.0F;
  float limit = 0.0F;  // activation(gate(x)) is at most this, and up(x) within -limit and limit; 0: no limit
  bool limits_gate = false;    // gate(x) itself is at most `limit`, not its activation
  std::optional<Situ> situ{};  // replaces the activation and the product
  // The gates of a token lose their mean plus this many standard deviations, over all columns, and are at
  // least 0. This makes most of them 0. Source: Gemma 3n.
  std::optional<float> gate_cutoff{};

  bool operator==(const GatedMlpSpec&) const = default;
};

// down(activation(up(x)))
struct PlainMlpSpec {
  std::size_t intermediate_size = 0;
  Activation activation = Activation::gelu;
  bool bias = false;
  bool learned_xielu = false;  // replaces `activation`; each layer stores parameters
  // x is a mix with the input of the token before, which the layer's state contains. Source: RWKV.
  bool token_shift = false;

  bool operator==(const PlainMlpSpec&) const = default;
};

// How a token's experts are chosen from the router's logits.
struct RouterSpec {
  // sparse_mixer: chooses the highest logits one after the other. An expert's weight is its softmax among the
  // experts that are not yet chosen and have logits within `tolerance`. Source: Liu et al., GRIN:
  // GRadient-INformed MoE, 2024.
  enum class Scoring : std::uint8_t { softmax, sigmoid, sqrt_softplus, sparse_mixer };

  std::size_t num_experts = 0;
  std::size_t num_experts_per_tok = 0;
  Scoring scoring = Scoring::softmax;
  float tolerance = 0.0F;        // relative to max(|logit|, highest logit)
  bool bias = false;             // added to the logits
  bool correction_bias = false;  // added to scores for selection only
  // A table has the experts of each token of the vocabulary. Scores only weigh them. 0: scores choose
  // experts; else vocab_size.
  std::size_t token_table = 0;
  bool normalize = false;     // scales a token's weights so that they add up to `scale`
  float min_sum = 1e-20F;     // smallest divisor for `normalize`
  float added_to_sum = 0.0F;  // added to the sum of scores, the divisor for `normalize`
  float scale = 1.0F;         // factor of the weights
  // The norm of the router's input, whose gain is a tensor of the router.
  std::optional<NormSpec> input_norm{};
  float input_scale = 1.0F;       // factor of the normed input
  bool per_expert_scale = false;  // a learned factor of each expert's weight
  // If there are several groups, experts are chosen from the best groups only.
  std::size_t num_groups = 1;
  std::size_t groups_per_tok = 1;
  std::size_t experts_scoring_group = 1;  // a group's score is the sum of this many best scores

  bool operator==(const RouterSpec&) const = default;
};

struct MixtureOfExpertsSpec {
  RouterSpec router;
  std::size_t intermediate_size = 0;         // width of an expert
  Activation activation = Activation::silu;  // activation of all experts
  bool gated = true;                         // false: experts are plain MLPs
  bool bias = false;                         // in the layers of routed experts
  bool output_bias = false;                  // one bias, added to the sum of the routed experts
  bool weigh_input = false;                  // scale an expert's input by its weight, instead of the output
  // Size of the vectors that the routed experts read and write, which are projections of the hidden state; 0:
  // they read the hidden state itself.
  std::size_t latent_size = 0;
  std::size_t shared_intermediate_size = 0;  // width of the expert that every token uses; 0: none
  bool shared_expert_gate = false;           // a gate scales the shared expert's output
  float shared_scale = 1.0F;                 // factor of the shared expert's output
  float limit = 0.0F;                        // limit of routed experts, as in GatedMlpSpec
  float shared_limit = 0.0F;                 // limit of the shared expert
  bool limits_gate = false;                  // as in GatedMlpSpec, for both limits
  std::optional<Situ> situ{};                // as in GatedMlpSpec, for all experts
  std::optional<NormSpec> latent_norm{};     // norm of the routed experts' sum, before its projection

  bool operator==(const MixtureOfExpertsSpec&) const = default;
};

using FeedForwardSpec = std::variant<GatedMlpSpec, PlainMlpSpec, MixtureOfExpertsSpec, NoPartSpec>;

// The width of an MLP, or of an expert; 0 without either.
std::size_t intermediate_size(const FeedForwardSpec& spec);

// Experts in addition to a block's feed-forward part: norm(part(x)) + norm(experts(norm(y))), where y is the
// residual stream. The router reads y. Each norm has its own gain.
struct ParallelExpertsSpec {
  MixtureOfExpertsSpec experts;
  NormSpec norm;

  bool operator==(const ParallelExpertsSpec&) const = default;
};

}  // namespace tp

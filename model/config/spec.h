// What parts a decoder has, as data. A family of models is a function from its config to this
// (architectures.h).
#pragma once

#include "model/kernels/activation.h"
#include "model/kernels/attention_pattern.h"
#include "model/weights/tensor_names.h"
#include "tp/model_config.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace tp {

struct NormSpec {
  enum class Kind : std::uint8_t { rms, layer };

  Kind kind = Kind::rms;
  float eps = 1e-6F;
  float gain_offset = 0.0F;  // added to the stored gain
  bool gain = true;          // without one it is 1
  bool bias = true;          // of layer norms; without one it is 0

  bool operator==(const NormSpec&) const = default;
};

struct RopeSpec {
  double theta = 10000.0;
  RopeScaling scaling;
  std::size_t rotary_dim = 0;  // the first elements of every head, which are rotated

  bool operator==(const RopeSpec&) const = default;
};

using kernels::Activation;
using kernels::AttentionPattern;

// What queries are multiplied by, beside the scale of scores: 1 + factor * ln(1 + floor((position + 1) /
// step)). Source: Nakanishi, Scalable-Softmax Is Superior for Attention, 2025, as in Llama 4.
struct QueryScalingSpec {
  double factor = 0.0;
  double step = 1.0;  // tokens

  bool operator==(const QueryScalingSpec&) const = default;
};

struct AttentionSpec {
  std::size_t num_attention_heads = 0;
  std::size_t num_key_value_heads = 0;
  std::size_t head_dim = 0;
  float scale = 1.0F;  // of query . key
  bool qkv_bias = false;
  bool o_bias = false;
  std::optional<RopeSpec> rope;            // none: positions come from elsewhere, or not at all
  AttentionPattern pattern;                // which tokens a token attends to
  std::optional<float> softcap;            // of scaled scores: softcap * tanh(score / softcap)
  std::optional<NormSpec> query_key_norm;  // of every head, before positions, unless what follows says else
  bool query_key_norm_per_head = false;    // every head has a gain of its own, [heads, head_dim]
  bool norms_after_rope = false;
  bool norms_whole_projections = false;  // query_key_norm is of all heads together
  bool interleaved_rope = false;         // pairs (2 i, 2 i + 1), not halves
  std::optional<float> clip_qkv;         // of queries, keys and values: to [-clip_qkv, clip_qkv]
  // What a score gains per position of its key, for every head; empty: nothing (ALiBi).
  std::vector<float> alibi_slopes;  // [num_attention_heads]
  bool sinks = false;               // a learned logit of every head joins its softmax's denominator
  std::optional<QueryScalingSpec> query_scaling;

  bool operator==(const AttentionSpec&) const = default;
};

// Multi-head latent attention: keys and values of all heads are projected from one shared latent.
struct LatentAttentionSpec {
  std::size_t num_attention_heads = 0;
  std::optional<std::size_t> q_lora_rank;  // without one, queries come from the hidden state directly
  std::size_t kv_lora_rank = 0;
  std::size_t qk_nope_head_dim = 0;
  std::size_t qk_rope_head_dim = 0;
  std::size_t v_head_dim = 0;
  float scale = 1.0F;  // of query . key
  std::optional<RopeSpec> rope;
  bool interleaved_rope = true;  // pairs (2 i, 2 i + 1), not halves

  bool operator==(const LatentAttentionSpec&) const = default;
};

using AttentionPartSpec = std::variant<AttentionSpec, LatentAttentionSpec>;

// down(activation(gate(x)) * up(x))
struct GatedMlpSpec {
  std::size_t intermediate_size = 0;
  Activation activation = Activation::silu;
  bool bias = false;

  bool operator==(const GatedMlpSpec&) const = default;
};

// down(activation(up(x)))
struct PlainMlpSpec {
  std::size_t intermediate_size = 0;
  Activation activation = Activation::gelu;
  bool bias = false;
  bool learned_xielu = false;  // in place of `activation`, with parameters that the layer stores

  bool operator==(const PlainMlpSpec&) const = default;
};

// How a token's experts are chosen from the router's logits.
struct RouterSpec {
  // sparse_mixer: the highest logits; the weight of one is its softmax over what is not chosen yet and within
  // `tolerance` of it. Source: Liu et al., GRIN: GRadient-INformed MoE, 2024.
  enum class Scoring : std::uint8_t { softmax, sigmoid, sparse_mixer };

  std::size_t num_experts = 0;
  std::size_t num_experts_per_tok = 0;
  Scoring scoring = Scoring::softmax;
  float tolerance = 0.0F;        // relative to the larger of the magnitudes
  bool bias = false;             // of the logits
  bool correction_bias = false;  // added to scores for the choice, but not to the weights
  bool normalize = false;        // a token's weights sum up to `scale`
  float least_sum = 1e-20F;      // what a token's scores are divided by at least for that
  float scale = 1.0F;            // of the weights
  // Experts are chosen from the best groups only, where there are several.
  std::size_t num_groups = 1;
  std::size_t groups_per_tok = 1;
  std::size_t experts_scoring_group = 1;  // a group's score is the sum over that many of its best experts

  bool operator==(const RouterSpec&) const = default;
};

struct MixtureOfExpertsSpec {
  RouterSpec router;
  std::size_t intermediate_size = 0;         // of an expert
  Activation activation = Activation::silu;  // of all experts
  bool bias = false;                         // of the layers of the chosen experts
  bool weigh_input = false;                  // a chosen expert's weight is a factor of what it reads
  std::size_t shared_intermediate_size = 0;  // of the expert that every token is routed to; 0 without one
  bool shared_expert_gate = false;           // which weighs that expert's result

  bool operator==(const MixtureOfExpertsSpec&) const = default;
};

using FeedForwardSpec = std::variant<GatedMlpSpec, PlainMlpSpec, MixtureOfExpertsSpec>;

struct BlockSpec {
  // sequential: the feed-forward half reads what attention has added to; parallel: both read the same.
  enum class Wiring : std::uint8_t { sequential, parallel };

  Wiring wiring = Wiring::sequential;
  std::optional<NormSpec> input_norm;  // absent in a block that norms only what its halves add
  AttentionPartSpec attention;
  std::optional<NormSpec> post_attention_norm;    // of what attention adds
  std::optional<NormSpec> pre_feed_forward_norm;  // absent too in a parallel block that has one norm for both
  FeedForwardSpec feed_forward;
  std::optional<NormSpec> post_feed_forward_norm;  // of what the feed-forward half adds
  float residual_scale = 1.0F;                     // of what either half adds

  bool operator==(const BlockSpec&) const = default;
};

struct DecoderSpec {
  TensorNames names;
  std::size_t vocab_size = 0;
  std::size_t hidden_size = 0;
  std::size_t max_position_embeddings = 0;  // tokens of a sequence at most
  float embedding_scale = 1.0F;
  std::size_t learned_positions = 0;  // rows of a table of positions, added to the embedding; 0: no table
  std::size_t first_learned_position = 0;  // the row of position 0
  std::optional<NormSpec> embedding_norm;
  std::vector<BlockSpec> blocks;
  NormSpec final_norm;
  bool tied_embeddings = false;
  bool lm_head_bias = false;
  float logit_scale = 1.0F;
  std::optional<float> logit_softcap;  // of scaled logits
  // Not of the model: whether results have the same bits on any number of ranks.
  bool same_bits = false;
};

// With same_bits, the most attention heads that a block has, on which the sizes of leaves depend (see
// leaf_of); else 0.
std::size_t leaf_heads(const DecoderSpec& spec);

}  // namespace tp

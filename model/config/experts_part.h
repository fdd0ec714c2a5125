// MLPs with a gate, and mixtures of experts: their tensors, and their fields in config.json.
#pragma once

#include "model/config/part_table.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tp {

struct CheckpointConfig;

struct GatedMlpNames {
  std::string gate_proj;
  std::string up_proj;
  std::string down_proj;
  // Replaces gate_proj and up_proj in files that store them as one tensor, gates first, although the family's
  // other files do not.
  std::string gate_up_proj{};
};

// Tensors with one matrix per expert, [experts, out_features, in_features], and biases, [experts,
// out_features].
struct ExpertStackNames {
  std::string gate_up_proj;  // twice an expert's width in rows
  std::string gate_up_bias;
  std::string down_proj;
  std::string down_bias;
  // These replace gate_up_proj if gates and ups have separate stacks.
  std::string gate_proj{};
  std::string up_proj{};
  bool transposed = false;       // matrices are stored as [in_features, out_features]
  bool down_transposed = false;  // only those of down_proj are
  bool alternating = false;      // rows of gate_proj and up_proj alternate; else gate_proj comes first
};

struct ExpertNames {
  std::string router;
  std::string correction_bias;  // a tensor, not a layer
  // A tensor of integers: see RouterSpec::token_table.
  std::string token_table{};
  // Tensors, not layers: the gain of the router's norm, and the factors of the experts' weights.
  std::string router_scale{};
  std::string per_expert_scale{};
  std::string output_bias{};  // a tensor, not a layer: see MixtureOfExpertsSpec::output_bias
  // Layers before and after all routed experts (see MixtureOfExpertsSpec::latent_size).
  std::string latent_down{};
  std::string latent_up{};
  std::string latent_norm{};
  GatedMlpNames shared_expert;
  std::string shared_expert_gate;
  std::string experts;  // prefix of an expert's index
  GatedMlpNames parts;  // names after an expert's index
  // Tensors that contain all experts; empty: the names of all_experts().
  ExpertStackNames stacks{};

  GatedMlpNames expert(std::size_t index) const;
  // `stacks`, or transformers 5's names if it is empty: "experts.gate_up_proj", "experts.down_proj".
  ExpertStackNames all_experts() const;
};

// Gates and ups in one tensor, of which GGUF files make two.
GgufPlace halves_of_shared_expert(const GgufContext& context);

inline constexpr std::array kExpertTensors = std::to_array<PartTensor<ExpertNames>>({
    {&ExpertNames::router, "gate", "ffn_gate_inp", nullptr, false},
    {&ExpertNames::correction_bias, "gate.e_score_correction_bias", "exp_probs_b.bias"},
    {&ExpertNames::token_table, "", "ffn_gate_tid2eid.weight", nullptr, false},
    {&ExpertNames::router_scale, "", "ffn_gate_inp.scale"},
    {&ExpertNames::per_expert_scale, "", "ffn_down_exps.scale"},
    {&ExpertNames::output_bias},
    {&ExpertNames::latent_down, "", "ffn_latent_down"},
    {&ExpertNames::latent_up, "", "ffn_latent_up"},
    {&ExpertNames::latent_norm, "", "ffn_routed_norm", nullptr, false},
    {&ExpertNames::shared_expert_gate, "shared_expert_gate", "ffn_gate_inp_shexp", nullptr, false},
});

inline constexpr std::array kSharedExpertTensors = std::to_array<PartTensor<GatedMlpNames>>({
    {&GatedMlpNames::gate_up_proj, "", "ffn_gate_shexp", halves_of_shared_expert},
    {&GatedMlpNames::gate_proj, "gate_proj", "ffn_gate_shexp"},
    {&GatedMlpNames::up_proj, "up_proj", "ffn_up_shexp"},
    {&GatedMlpNames::down_proj, "down_proj", "ffn_down_shexp"},
});

// The matrices of one expert, which GGUF files store as stacks of all experts.
inline constexpr std::array kOneExpertTensors = std::to_array<PartTensor<GatedMlpNames>>({
    {&GatedMlpNames::gate_proj, "gate_proj", "ffn_gate_exps"},
    {&GatedMlpNames::up_proj, "up_proj", "ffn_up_exps"},
    {&GatedMlpNames::down_proj, "down_proj", "ffn_down_exps"},
});

// ModelConfig has the number of experts.
struct ExpertsConfig {
  std::size_t num_experts_per_tok = 0;
  std::size_t moe_intermediate_size = 0;
  std::size_t moe_latent_size = 0;                  // 0: none
  std::size_t shared_expert_intermediate_size = 0;  // 0: none
  std::size_t n_shared_experts = 0;
  bool norm_topk_prob = false;
  double routed_scaling_factor = 1.0;
  std::string scoring_func = "softmax";
  std::string topk_method = "greedy";
  std::size_t n_group = 1;
  std::size_t topk_group = 1;
  std::size_t decoder_sparse_step = 1;
  std::vector<std::size_t> mlp_only_layers{};
  std::size_t first_k_dense_replace = 0;
  std::size_t num_hash_layers = 0;  // first layers, whose experts depend on the token only
  std::size_t moe_layer_freq = 1;
  std::vector<std::size_t> moe_layers{};  // layers with experts; empty: use interleave_moe_layer_step
  std::size_t interleave_moe_layer_step = 1;
  // Jamba: layer i has experts if i % expert_layer_period is expert_layer_offset. 0: no such rule.
  std::size_t expert_layer_period = 0;
  std::size_t expert_layer_offset = 0;
  std::size_t intermediate_size_mlp = 0;  // intermediate_size of layers without experts; 0: intermediate_size
  // Cohere 2: 1 lets dense layers, which come first, see everything; how experts are weighed, and how a
  // shared expert is added.
  std::size_t prefix_dense_sliding_window_pattern = 0;
  std::string expert_selection_fn{};
  std::string shared_expert_combination_strategy{};
  std::size_t moe_layer_start_index = 0;
  std::size_t moe_layer_end_index = SIZE_MAX;  // last layer with experts; SIZE_MAX: no limit
  std::size_t moe_layer_interval = 1;
  double moe_norm_min = 0.0;
  double router_jitter_noise = 0.0;

  // Kimi-K3's activation; 0: another one.
  double situ_beta = 0.0;
  double situ_linear_beta = 0.0;
  // The limit of activations in all routed experts; 0: the family reads only limits of single layers.
  double swiglu_limit = 0.0;
  // [layers] or empty: limits of activations, in routed experts, and in shared experts or MLPs; 0: none.
  std::vector<double> swiglu_limits{};
  std::vector<double> shared_swiglu_limits{};

  bool operator==(const ExpertsConfig&) const = default;
};

// Reads the fields of config.json that describe experts, if the model has any. Throws CheckpointError.
void read_experts(const JsonNode& fields, CheckpointConfig& config);

}  // namespace tp

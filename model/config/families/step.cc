// Step-3.5 and 3.7: windows in most layers, which have more query heads and another RoPE; a gate for each
// head; experts and MLPs whose activations may have limits, DeepSeek-V3's choice of experts.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

void set_attention(const CheckpointConfig& config, std::size_t layer, const NormSpec& norm,
                   AttentionSpec& attention) {
  attention.query_key_norm = norm;
  attention.output_gate = attention.gate_per_head = true;
  if (!config.num_attention_heads_per_layer.empty())
    attention.num_attention_heads = config.num_attention_heads_per_layer[layer];
  const bool is_local = attention.pattern.window.has_value();
  RopeSpec& rope = *attention.rope;
  if (is_local) rope.scaling = {};
  if (!config.layer_rope_theta.empty())
    rope.theta = config.layer_rope_theta[layer];
  else if (is_local && config.rope_local_base_freq != 0.0)
    rope.theta = config.rope_local_base_freq;
  const double usual = is_local && config.local_partial_rotary_factor != 0.0
                           ? config.local_partial_rotary_factor
                           : config.partial_rotary_factor;
  const std::vector<double>& parts = config.layer_partial_rotary_factor;
  rope.rotary_dim = rotated_elements(config, parts.empty() ? usual : parts[layer]);
}

ModelSpec step_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  const NormSpec norm{.eps = static_cast<float>(config.rms_norm_eps), .gain_offset = 1.0F};
  set_norms(spec, norm);
  set_windows(config, spec, [](std::size_t) { return false; });  // layer_types decides
  ignore_next_token_layers(config, spec.names);
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router = router_with_correction_bias(config);
  experts.shared_intermediate_size = config.experts.shared_expert_intermediate_size;
  require_experts(config, experts);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    BlockSpec& block = spec.blocks[layer];
    set_attention(config, layer, norm, attention_of(block));
    experts.limit = limit_of(config.experts.swiglu_limits, layer);
    experts.shared_limit = limit_of(config.experts.shared_swiglu_limits, layer);
    std::get<GatedMlpSpec>(block.feed_forward).limit = experts.shared_limit;
    const std::vector<std::size_t>& listed = config.experts.moe_layers;
    if (listed.empty() ? layer >= config.experts.first_k_dense_replace
                       : std::ranges::find(listed, layer) != listed.end())
      block.feed_forward = experts;
  }
  return spec;
}

BlockNames step_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  const std::string moe = prefix + "moe.";
  names.attention_gate = prefix + "self_attn.g_proj";
  names.experts.router = moe + "gate";
  names.experts.correction_bias = moe + "router_bias";
  names.experts.shared_expert = usual_names(kSharedExpertTensors, prefix + "share_expert.");
  names.experts.stacks = {.gate_up_proj = {},
                          .gate_up_bias = {},
                          .down_proj = moe + "down_proj",
                          .down_bias = {},
                          .gate_proj = moe + "gate_proj",
                          .up_proj = moe + "up_proj"};
  return names;
}

// The elements that layers without a window rotate are half as many as the file says, and their factors are
// for as many as it says.
nlohmann::json step_in_gguf(const ModelMetadata& model) {
  require<ConfigError>(model.whole_or("moe_every_n_layers", 1) == 1,
                       "{}: moe_every_n_layers must be 1, found {}; use the model's original checkpoint",
                       model.files().name(), model.whole_or("moe_every_n_layers", 1));
  nlohmann::json config = sigmoid_experts_in_gguf(model);
  config.update(gguf_windows(model));
  config.update(gguf_heads_of_layers(model));
  config.update(gguf_ropes_of_types(model));
  config.update(gguf_activation_limits(model));
  const std::uint64_t rotated = model.whole_or("rope.dimension_count", model.head_dim()) / 2;
  nlohmann::json& full = config["rope_parameters"]["full_attention"];
  for (const char* const factors : {"short_factor", "long_factor"}) {
    if (full.contains(factors) && full[factors].size() > rotated / 2)
      full[factors].erase(full[factors].begin() + static_cast<std::ptrdiff_t>(rotated / 2),
                          full[factors].end());
  }
  config["rotary_dim"] = nullptr;
  config["partial_rotary_factor"] = static_cast<double>(rotated) / static_cast<double>(model.head_dim());
  config["shared_expert_intermediate_size"] = model.whole_or("expert_shared_feed_forward_length", 0);
  return config;
}

}  // namespace

Family step3p5() {
  Family family = llama_like("Step3p5ForCausalLM", step_spec, step_block);
  family.aliases = {"Step3p7ForConditionalGeneration"};
  family.fixed_fields = {
      {"use_head_wise_attn_gate", "true"},        {"zero_centered", "true"}, {"use_moe_router_bias", "true"},
      {"moe_router_activation", "\"sigmoid\""},   {"sink", "false"},         {"use_rope_layers", "[]"},
      {"yarn_only_types", "[\"full_attention\"]"}};
  family.has_theta_per_layer = true;
  family.names.gguf.norm_offset = 1.0F;
  family.gguf = {
      .architecture = "step35", .config = step_in_gguf, .stores_windows = true, .doubles_rotary_dim = true};
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.experts.norm_topk_prob = true;
  family.defaults.experts.routed_scaling_factor = 3.0;
  return family;
}

}  // namespace tp::families

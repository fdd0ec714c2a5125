// Step-3.5 and 3.7: windows in most layers, which have more query heads and another RoPE; a gate for each
// head; experts and MLPs whose activations may have limits, DeepSeek-V3's choice of experts.
#include "model/config/families/common.h"

#include <algorithm>

namespace tp::families {
namespace {

float limit_of(const std::vector<double>& limits, std::size_t layer) {
  return limits.empty() ? 0.0F : static_cast<float>(limits[layer]);
}

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

}  // namespace

Family step3p5() {
  Family family = llama_like("Step3p5ForCausalLM", step_spec, step_block);
  family.aliases = {"Step3p7ForConditionalGeneration"};
  family.fixed_fields = {
      {"use_head_wise_attn_gate", "true"},        {"zero_centered", "true"}, {"use_moe_router_bias", "true"},
      {"moe_router_activation", "\"sigmoid\""},   {"sink", "false"},         {"use_rope_layers", "[]"},
      {"yarn_only_types", "[\"full_attention\"]"}};
  family.has_theta_per_layer = true;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.experts.norm_topk_prob = true;
  family.defaults.experts.routed_scaling_factor = 3.0;
  return family;
}

}  // namespace tp::families

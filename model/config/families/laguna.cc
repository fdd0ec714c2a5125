// Laguna: Qwen 3 with windows in most layers, which have other numbers of heads and another RoPE, gates of
// attention's output, and DeepSeek-V3's choice of experts.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec laguna_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  set_windows(config, spec, [](std::size_t) { return false; });  // layer_types decides
  const double local_part =
      config.local_partial_rotary_factor == 0.0 ? 1.0 : config.local_partial_rotary_factor;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    AttentionSpec& attention = attention_of(spec.blocks[layer]);
    attention.query_key_norm = spec.final_norm;
    attention.output_gate = !config.gating.empty();
    attention.gate_per_head = config.gating == "per-head";
    attention.softplus_gate = true;
    if (!config.num_attention_heads_per_layer.empty())
      attention.num_attention_heads = config.num_attention_heads_per_layer[layer];
    if (attention.pattern.window && config.rope_local_base_freq != 0.0)
      attention.rope = RopeSpec{.theta = config.rope_local_base_freq,
                                .scaling = {},
                                .rotary_dim = rotated_elements(config, local_part)};
  }
  if (config.num_experts == 0) return spec;
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router = router_with_correction_bias(config);
  experts.router.normalize = true;
  experts.shared_intermediate_size = config.experts.shared_expert_intermediate_size;
  set_experts(config, experts, spec, [&](std::size_t layer) {
    const std::vector<std::size_t>& dense = config.experts.mlp_only_layers;
    return dense.empty() ? layer >= config.experts.first_k_dense_replace
                         : std::ranges::find(dense, layer) == dense.end();
  });
  return spec;
}

BlockNames laguna_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.attention_gate = prefix + "self_attn.g_proj";
  names.experts.correction_bias = prefix + "mlp.experts.e_score_correction_bias";
  return names;
}

// Without a list, every fourth layer from the first on has no window.
nlohmann::json windows_in_gguf(const ModelMetadata& model, std::size_t layers) {
  nlohmann::json fields = gguf_windows(model);
  if (fields["sliding_window"].is_null() || fields.contains("layer_types")) return fields;
  for (std::size_t layer = 0; layer < layers; ++layer)
    fields["layer_types"].push_back(layer % 4 == 0 ? "full_attention" : "sliding_attention");
  return fields;
}

// The file has the number of gates as the number of a tensor's rows only.
const char* gating_in_gguf(const ModelMetadata& model) {
  const GgufFiles::Entry* const gate = model.files().find("blk.0.attn_gate.weight");
  const bool is_per_head =
      gate != nullptr && gate->tensor.shape.front() == model.wholes("attention.head_count").front();
  return is_per_head ? "per-head" : "per-element";
}

nlohmann::json laguna_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = sigmoid_experts_in_gguf(model);
  config.update(windows_in_gguf(model, config["num_hidden_layers"]));
  config.update(gguf_heads_of_layers(model));
  config.update(gguf_ropes_of_types(model));
  // The factor is the config's, also if it is 1.
  const char* const factor = "rope.scaling.yarn_attn_factor";
  if (model.has(factor))
    config["rope_parameters"]["full_attention"]["attention_factor"] = model.number(factor);
  config["gating"] = gating_in_gguf(model);
  config["shared_expert_intermediate_size"] = model.whole_or("expert_shared_feed_forward_length", 0);
  return config;
}

}  // namespace

Family laguna() {
  Family family = llama_like("LagunaForCausalLM", laguna_spec, laguna_block);
  family.fixed_fields = {{"moe_apply_router_weight_on_input", "false"},
                         {"moe_router_logit_softcapping", "0.0"},
                         {"moe_router_score_func", "\"sigmoid\""},
                         {"moe_router_use_sigmoid", "true"},
                         {"swa_attention_sink_enabled", "false"},
                         {"swa_rope_parameters", "null"},
                         {"qkv_bias", "false"}};
  family.gguf = {.architecture = "laguna", .config = laguna_in_gguf, .stores_windows = true};
  family.defaults.rope_theta = 500000;
  family.defaults.rope_local_base_freq = 10000;
  family.defaults.experts.first_k_dense_replace = 1;
  family.defaults.gating = "per-head";
  family.defaults.experts.routed_scaling_factor = 1.0;
  family.defaults.sliding_window = 512;
  return family;
}

}  // namespace tp::families

// AFMoE (Trinity): gated attention without RoPE in every fourth layer, windows in the others, four norms per
// block, and DeepSeek-V3's choice of experts.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec afmoe_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  spec.embedding_scale = static_cast<float>(config.embedding_multiplier);
  set_windows(config, spec, [](std::size_t) { return false; });  // layer_types decides
  for (BlockSpec& block : spec.blocks) {
    block.post_attention_norm = block.post_feed_forward_norm = block.input_norm;
    AttentionSpec& attention = attention_of(block);
    attention.query_key_norm = block.input_norm;
    attention.output_gate = true;
    if (!attention.pattern.window) attention.rope.reset();
  }
  set_sigmoid_experts(config, spec);
  return spec;
}

BlockNames afmoe_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.attention_gate = prefix + "self_attn.gate_proj";
  names.post_attention_norm = prefix + "post_attention_layernorm";
  names.pre_feed_forward_norm = prefix + "pre_mlp_layernorm";
  names.post_feed_forward_norm = prefix + "post_mlp_layernorm";
  names.experts.router = prefix + "mlp.router.gate";
  names.experts.correction_bias = prefix + "mlp.expert_bias";
  names.experts.shared_expert = usual_names(kSharedExpertTensors, prefix + "mlp.shared_experts.");
  return names;
}

nlohmann::json afmoe_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = sigmoid_experts_in_gguf(model);
  config.update(gguf_windows(model));
  config["mup_enabled"] = true;
  return config;
}

}  // namespace

Family afmoe() {
  Family family = llama_like("AfmoeForCausalLM", afmoe_spec, afmoe_block);
  family.fixed_fields = {
      {"score_func", "\"sigmoid\""}, {"num_expert_groups", "1"}, {"num_limited_groups", "1"}};
  family.gguf = {.architecture = "afmoe", .config = afmoe_in_gguf, .stores_windows = true};
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.sliding_window_pattern = 4;
  family.defaults.experts.norm_topk_prob = true;
  return family;
}

}  // namespace tp::families

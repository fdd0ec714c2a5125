// GLM-4.5, dots.llm1 and Solar Open: Llama with DeepSeek-V3's experts.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec glm4_moe_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) {
    AttentionSpec& attention = attention_of(block);
    attention.o_bias = false;
    if (config.use_qk_norm) attention.query_key_norm = block.input_norm;
  }
  ignore_next_token_layers(config, spec.names);
  set_sigmoid_experts(config, spec);
  return spec;
}

ModelSpec glm4_moe_next_token_spec(const CheckpointConfig& config) {
  return next_token_spec(config, glm4_moe_spec);
}

ModelSpec dots1_spec(const CheckpointConfig& config) {
  ModelSpec spec = glm4_moe_spec(config);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).query_key_norm = block.input_norm;
    attention_of(block).o_bias = config.attention_out_bias.value_or(config.attention_bias);
  }
  set_windows(config, spec, [&](std::size_t layer) { return layer >= config.max_window_layers; });
  return spec;
}

BlockNames glm4_moe_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.experts.shared_expert = usual_names(kSharedExpertTensors, prefix + "mlp.shared_experts.");
  names.next_token = usual_names(kNextTokenTensors, prefix);
  return names;
}

nlohmann::json glm4_moe_config(const ModelMetadata& model) {
  nlohmann::json config = sigmoid_experts_in_gguf(model);
  config["use_qk_norm"] = model.has_tensor("blk.0.attn_q_norm.weight");
  return config;
}

}  // namespace

Family glm4_moe() {
  Family family = llama_like("Glm4MoeForCausalLM", glm4_moe_spec, glm4_moe_block);
  family.make_next_token_spec = glm4_moe_next_token_spec;
  family.names.gguf.block.pre_feed_forward_norm = "post_attention_norm";
  family.gguf = {.architecture = "glm4moe", .config = glm4_moe_config};
  family.defaults.max_position_embeddings = 131072;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.partial_rotary_factor = 0.5;
  family.defaults.num_experts = 128;
  family.defaults.experts.num_experts_per_tok = 8;
  family.defaults.experts.n_shared_experts = 1;
  family.defaults.experts.moe_intermediate_size = 1408;
  family.defaults.experts.norm_topk_prob = true;
  family.defaults.experts.first_k_dense_replace = 1;
  return family;
}

Family dots1() {
  Family family = derived(glm4_moe(), "Dots1ForCausalLM", dots1_spec);
  family.make_next_token_spec = nullptr;
  family.names.gguf = {};
  family.gguf = {.architecture = "dots1", .config = sigmoid_experts_in_gguf};
  family.defaults = {};
  family.defaults.max_position_embeddings = 2048;
  family.defaults.max_window_layers = 62;
  family.defaults.sliding_window = 4096;
  return family;
}

// Its GGUF files are read as GLM-4.5.
Family solar_open() {
  Family family = derived(glm4_moe(), "SolarOpenForCausalLM");
  family.make_next_token_spec = nullptr;
  family.gguf.is_of = [](const ModelMetadata&) { return false; };
  family.defaults.partial_rotary_factor = 1.0;
  family.defaults.experts.first_k_dense_replace = 0;
  return family;
}

}  // namespace tp::families

// StableLM: Llama with layer norms and partial RoPE. Larger models have a norm with its own gain for each
// query and key head, and parallel blocks.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec stablelm_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  const NormSpec norm = layer_norm_of(config);
  set_norms(spec, norm);
  if (config.use_parallel_residual) share_input(spec);
  for (BlockSpec& block : spec.blocks) {
    AttentionSpec& attention = attention_of(block);
    attention.o_bias = false;
    if (!config.use_qk_norm) continue;
    attention.query_key_norm = norm;
    attention.query_key_norm->bias = false;
    attention.query_key_norm_per_head = true;
  }
  return spec;
}

BlockNames stablelm_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.q_norm = prefix + "self_attn.q_layernorm.norms";
  names.k_norm = prefix + "self_attn.k_layernorm.norms";
  names.norm_tensor_per_head = true;
  return names;
}

nlohmann::json stablelm_config(const ModelMetadata& model) {
  return {{"layer_norm_eps", model.number("attention.layer_norm_epsilon")},
          {"use_parallel_residual", !model.has_tensor("blk.0.ffn_norm.weight")},
          {"qk_layernorm", model.has_tensor("blk.0.attn_q_norm.weight")}};
}

}  // namespace

Family stablelm() {
  Family family = llama_like("StableLmForCausalLM", stablelm_spec, stablelm_block);
  family.defaults.max_position_embeddings = 4096;
  family.defaults.partial_rotary_factor = 0.25;
  family.defaults.use_parallel_residual = false;
  family.gguf = {.architecture = "stablelm", .config = stablelm_config};
  return family;
}

}  // namespace tp::families

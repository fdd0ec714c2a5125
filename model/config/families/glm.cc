// GLM: Llama with interleaved RoPE of the first half of each head, and one tensor for gate and up
// projections. GLM 4 (0414) adds norms after attention and MLP. GGUF files of ChatGLM are read as GLM, with
// queries, keys and values in one tensor.
#include "model/config/families/common.h"

namespace tp::families {

ModelSpec glm_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).o_bias = false;
    attention_of(block).interleaved_rope = true;
  }
  return spec;
}

namespace {

ModelSpec glm4_spec(const CheckpointConfig& config) {
  ModelSpec spec = glm_spec(config);
  for (BlockSpec& block : spec.blocks)
    block.post_attention_norm = block.post_feed_forward_norm = spec.final_norm;
  return spec;
}

BlockNames glm_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.qkv_proj = prefix + "self_attn.qkv_proj";
  names.gate_proj = names.up_proj = prefix + "mlp.gate_up_proj";
  return names;
}

BlockNames glm4_block(const std::string& prefix) {
  BlockNames names = glm_block(prefix);
  names.post_attention_norm = prefix + "post_self_attn_layernorm";
  names.post_feed_forward_norm = prefix + "post_mlp_layernorm";
  return names;
}

}  // namespace

Family glm() {
  Family family = llama_like("GlmForCausalLM", glm_spec, glm_block);
  family.names.gguf.block.gate_proj = family.names.gguf.block.up_proj;
  family.defaults.partial_rotary_factor = 0.5;
  family.defaults.head_dim = 128;
  family.defaults.num_key_value_heads = 2;
  family.defaults.max_position_embeddings = 131072;
  family.defaults.rms_norm_eps = 1.5625e-7;
  family.defaults.attention_bias = true;
  family.gguf = {.architecture = "chatglm"};
  return family;
}

Family glm4() {
  Family family = derived(glm(), "Glm4ForCausalLM", glm4_spec, glm4_block);
  family.gguf = {.architecture = "glm4"};
  return family;
}

}  // namespace tp::families

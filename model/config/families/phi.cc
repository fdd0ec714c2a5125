// Phi (1, 1.5 and 2): GPT-NeoX with one norm per block, a bias in the LM head, and separate tensors for
// queries, keys and values.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

ModelSpec phi_spec(const CheckpointConfig& config) {
  ModelSpec spec = gpt_neox_spec(config);
  share_input(spec);
  spec.lm_head_bias = true;
  if (!config.use_qk_norm) return spec;
  for (BlockSpec& block : spec.blocks) attention_of(block).query_key_norm = layer_norm_of(config);
  return spec;
}

BlockNames phi_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.qkv_proj = prefix + "self_attn.Wqkv";  // in GGUF files made from its first checkpoints
  names.q_norm = prefix + "self_attn.q_layernorm";
  names.k_norm = prefix + "self_attn.k_layernorm";
  names.o_proj = prefix + "self_attn.dense";
  names.gate_proj.clear();
  names.pre_feed_forward_norm.clear();
  names.up_proj = prefix + "mlp.fc1";
  names.down_proj = prefix + "mlp.fc2";
  return names;
}

}  // namespace

Family phi() {
  Family family = llama_like("PhiForCausalLM", phi_spec, phi_block);
  family.defaults.hidden_act = "gelu_new";
  family.defaults.partial_rotary_factor = 0.5;
  family.defaults.attention_bias = true;
  family.defaults.mlp_bias = true;
  family.names.final_norm = "final_layernorm";
  family.gguf = {.architecture = "phi2", .config = gpt2_config};
  return family;
}

}  // namespace tp::families

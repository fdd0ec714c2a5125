// Hunyuan: Llama with norms of queries and keys after RoPE.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

ModelSpec hunyuan_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).query_key_norm = spec.final_norm;
    attention_of(block).norms_after_rope = true;
  }
  return spec;
}

BlockNames hunyuan_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.q_norm = prefix + "self_attn.query_layernorm";
  names.k_norm = prefix + "self_attn.key_layernorm";
  return names;
}

}  // namespace

Family hunyuan() {
  Family family = llama_like("HunYuanDenseV1ForCausalLM", hunyuan_spec, hunyuan_block);
  family.defaults.rms_norm_eps = 1e-5;
  family.gguf = {.architecture = "hunyuan-dense"};
  return family;
}

}  // namespace tp::families

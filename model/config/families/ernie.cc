// ERNIE 4.5: Llama with interleaved RoPE.
#include "model/config/families/common.h"

namespace tp::families {

ModelSpec ernie_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) attention_of(block).interleaved_rope = true;
  return spec;
}

Family ernie() {
  Family family = llama_like("Ernie4_5ForCausalLM", ernie_spec);
  family.defaults.head_dim = 128;
  family.defaults.num_key_value_heads = 2;
  family.defaults.max_position_embeddings = 131072;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.rope_theta = 5e5;
  family.defaults.tie_word_embeddings = true;
  family.gguf = {.architecture = "ernie4_5"};
  return family;
}

}  // namespace tp::families

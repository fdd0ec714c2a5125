// Seed-OSS: Llama whose config has a separate field for the output projection's bias.
#include "model/config/families/common.h"

namespace tp::families {

Family seed_oss() {
  Family family = llama_like("SeedOssForCausalLM", llama_spec);
  family.defaults.head_dim = 128;
  family.defaults.num_key_value_heads = 8;
  family.defaults.max_position_embeddings = 524288;
  family.defaults.attention_bias = true;
  family.defaults.attention_out_bias = false;
  family.names.gguf.block.pre_feed_forward_norm = "post_attention_norm";
  family.gguf = {.architecture = "seed_oss"};
  return family;
}

}  // namespace tp::families

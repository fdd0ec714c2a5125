// BLOOM: Falcon's first generation with biases, sequential blocks, ALiBi and an embedding norm.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

ModelSpec bloom_spec(const CheckpointConfig& config) {
  ModelSpec spec = gpt_neox_spec(config);
  set_alibi(config, spec);
  spec.embedding_norm = spec.final_norm;
  return spec;
}

}  // namespace

Family bloom() {
  Family family{.architecture = "BloomForCausalLM",
                .intermediate_per_hidden = 4,
                .fixed_fields = {{"apply_residual_connection_post_layernorm", "false"}},
                .make_spec = bloom_spec};
  family.defaults.hidden_act = "gelu_new";
  family.defaults.use_parallel_residual = false;
  family.defaults.attention_bias = true;
  family.defaults.mlp_bias = true;
  family.defaults.tie_word_embeddings = true;
  family.names = {.prefix = "transformer.",
                  .embed_tokens = "word_embeddings",
                  .embed_positions = {},
                  .embedding_norm = "word_embeddings_layernorm",
                  .final_norm = "ln_f",
                  .lm_head = "lm_head",
                  .blocks = "h.",
                  .names_of_block = falcon_block};
  set_qkv(family.names.gguf.block, "attn_qkv");
  family.gguf = {.architecture = "bloom", .config = gpt2_config};
  return family;
}

}  // namespace tp::families

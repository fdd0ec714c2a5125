// LLaDA: Llama with bidirectional attention. Logits predict the token at their own position. Source: Nie et
// al., Large Language Diffusion Models, 2025, and its code.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

ModelSpec llada_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  spec.bidirectional = true;
  for (BlockSpec& block : spec.blocks) attention_of(block).pattern.causal = false;
  spec.diffusion = DiffusionSpec{.mask_token = config.mask_token_id};
  return spec;
}

BlockNames llada_block(const std::string& prefix) {
  BlockNames names;
  names.input_norm = prefix + "attn_norm";
  names.q_proj = prefix + "q_proj";
  names.k_proj = prefix + "k_proj";
  names.v_proj = prefix + "v_proj";
  names.o_proj = prefix + "attn_out";
  names.pre_feed_forward_norm = prefix + "ff_norm";
  names.gate_proj = prefix + "ff_proj";
  names.up_proj = prefix + "up_proj";
  names.down_proj = prefix + "ff_out";
  return names;
}

}  // namespace

Family llada() {
  Family family{.architecture = "LLaDAModelLM",
                .kind = ModelKind::diffusion,
                .fixed_fields = {{"alibi", "false"},
                                 {"attention_layer_norm", "false"},
                                 {"block_type", "\"llama\""},
                                 {"include_bias", "false"},
                                 {"include_qkv_bias", "false"},
                                 {"input_emb_norm", "false"},
                                 {"layer_norm_type", "\"rms\""},
                                 {"rope", "true"},
                                 {"scale_logits", "false"}},
                .make_spec = llada_spec};
  family.defaults.mask_token_id = 126336;
  family.defaults.max_position_embeddings = 4096;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.rope_theta = 500000.0;
  family.names = {.prefix = "model.transformer.",
                  .embed_tokens = "wte",
                  .embed_positions = {},
                  .final_norm = "ln_f",
                  .lm_head = "model.transformer.ff_out",
                  .blocks = "blocks.",
                  .names_of_block = llada_block};
  return family;
}

}  // namespace tp::families

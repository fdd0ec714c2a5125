// OPT: GPT-2 whose table of positions has two more rows at its beginning, with queries, keys and values in
// tensors of their own. The variant of opt-350m, which norms what halves of a block have added to and
// projects its embedding, is not supported.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

constexpr std::size_t kFirstPosition = 2;

DecoderSpec opt_spec(const ModelConfig& config) {
  DecoderSpec spec = gpt2_spec(config);
  spec.first_learned_position = kFirstPosition;
  spec.learned_positions += kFirstPosition;
  return spec;
}

BlockNames opt_block(const std::string& prefix) {
  BlockNames names;
  names.input_norm = prefix + "self_attn_layer_norm";
  names.q_proj = prefix + "self_attn.q_proj";
  names.k_proj = prefix + "self_attn.k_proj";
  names.v_proj = prefix + "self_attn.v_proj";
  names.o_proj = prefix + "self_attn.out_proj";
  names.pre_feed_forward_norm = prefix + "final_layer_norm";
  names.up_proj = prefix + "fc1";
  names.down_proj = prefix + "fc2";
  return names;
}

}  // namespace

Family opt() {
  Family family{.architecture = "OPTForCausalLM",
                .fixed_fields = {{"do_layer_norm_before", "true"},
                                 {"_remove_final_layer_norm", "false"},
                                 {"layer_norm_elementwise_affine", "true"}},
                .make_spec = opt_spec};
  family.defaults.hidden_act = "relu";
  family.defaults.attention_bias = true;
  family.defaults.mlp_bias = true;
  family.defaults.tie_word_embeddings = true;
  family.defaults.use_parallel_residual = false;
  family.names = {.prefix = "model.",
                  .embed_tokens = "decoder.embed_tokens",
                  .embed_positions = "decoder.embed_positions",
                  .final_norm = "decoder.final_layer_norm",
                  .lm_head = "lm_head",
                  .blocks = "decoder.layers.",
                  .names_of_block = opt_block};
  return family;
}

}  // namespace tp::families

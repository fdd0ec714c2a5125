// GPT-J: GPT-NeoX with one norm per block, interleaved RoPE, a bias in the LM head, and no biases in
// attention.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

ModelSpec gptj_spec(const CheckpointConfig& config) {
  ModelSpec spec = gpt_neox_spec(config);
  share_input(spec);
  spec.lm_head_bias = true;
  for (BlockSpec& block : spec.blocks) attention_of(block).interleaved_rope = true;
  return spec;
}

BlockNames gptj_block(const std::string& prefix) {
  BlockNames names;
  names.input_norm = prefix + "ln_1";
  names.q_proj = prefix + "attn.q_proj";
  names.k_proj = prefix + "attn.k_proj";
  names.v_proj = prefix + "attn.v_proj";
  names.o_proj = prefix + "attn.out_proj";
  names.up_proj = prefix + "mlp.fc_in";
  names.down_proj = prefix + "mlp.fc_out";
  return names;
}

}  // namespace

Family gptj() {
  Family family{.architecture = "GPTJForCausalLM",
                .intermediate_per_hidden = 4,
                .fixed_fields = {{"rotary", "true"}},
                .names = gpt2_names(),
                .make_spec = gptj_spec};
  family.defaults.hidden_act = "gelu_new";
  family.defaults.rotary_dim = 64;
  family.defaults.mlp_bias = true;
  family.names.embed_positions.clear();
  family.names.names_of_block = gptj_block;
  return family;
}

}  // namespace tp::families

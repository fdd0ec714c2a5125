// GPT-Neo: GPT-2 with unscaled scores, a window in every second layer, and separate tensors without biases
// for queries, keys and values.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

ModelSpec gpt_neo_spec(const CheckpointConfig& config) {
  ModelSpec spec = gpt2_spec(config);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).scale = 1.0F;
    attention_of(block).qkv_bias = false;
  }
  set_windows(config, spec, [](std::size_t layer) { return layer % 2 == 1; });
  return spec;
}

BlockNames gpt_neo_block(const std::string& prefix) {
  BlockNames names = gpt2_block(prefix);
  const std::string attention = prefix + "attn.attention.";
  names.q_proj = attention + "q_proj";
  names.k_proj = attention + "k_proj";
  names.v_proj = attention + "v_proj";
  names.o_proj = attention + "out_proj";
  names.transposed = false;
  return names;
}

}  // namespace

Family gpt_neo() {
  Family family = derived(gpt2(), "GPTNeoForCausalLM", gpt_neo_spec);
  family.defaults.max_position_embeddings = 2048;
  family.defaults.sliding_window = 256;
  family.names = gpt2_names();
  family.names.names_of_block = gpt_neo_block;
  family.names.buffers = {".attn.attention.bias", ".attn.attention.masked_bias"};
  family.gguf = {};
  return family;
}

}  // namespace tp::families

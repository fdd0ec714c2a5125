// Helium: Llama with interleaved RoPE.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

DecoderSpec helium_spec(const ModelConfig& config) {
  DecoderSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).o_bias = false;
    attention_of(block).interleaved_rope = true;
  }
  return spec;
}

}  // namespace

Family helium() {
  Family family = llama_like("HeliumForCausalLM", helium_spec);
  family.defaults.head_dim = 128;
  family.defaults.max_position_embeddings = 4096;
  family.defaults.rms_norm_eps = 1e-8;
  family.defaults.rope_theta = 1e5;
  return family;
}

}  // namespace tp::families

// Granite: Llama with multipliers of the embedding, of attention scores, of what the halves of a block add,
// and of logits.
#include "model/config/families/common.h"

namespace tp::families {

DecoderSpec granite_spec(const ModelConfig& config) {
  DecoderSpec spec = llama_spec(config);
  spec.embedding_scale = static_cast<float>(config.embedding_multiplier);
  spec.logit_scale = static_cast<float>(1.0 / config.logits_scaling);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).scale = static_cast<float>(config.attention_multiplier);
    block.residual_scale = static_cast<float>(config.residual_multiplier);
  }
  return spec;
}

Family granite() {
  Family family{.architecture = "GraniteForCausalLM", .names = llama_names(), .make_spec = granite_spec};
  family.defaults.attention_multiplier = 1.0;
  return family;
}

}  // namespace tp::families

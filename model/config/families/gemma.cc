// Gemma: Llama with another activation, gains that are stored less 1, and a scaled embedding.
#include "model/config/families/family.h"

#include <cmath>

namespace tp::families {
namespace {

DecoderSpec gemma_spec(ModelConfig config) {
  // Its first config.json files say "gelu" and mean the approximation.
  if (config.hidden_act == "gelu") config.hidden_act = "gelu_pytorch_tanh";
  DecoderSpec spec = llama_spec(config);
  spec.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  spec.final_norm.gain_offset = 1.0F;
  for (BlockSpec& block : spec.blocks) {
    block.input_norm = spec.final_norm;
    block.pre_feed_forward_norm = spec.final_norm;
  }
  return spec;
}

std::optional<float> cap_of(double value) {
  return value == 0 ? std::nullopt : std::optional(static_cast<float>(value));
}

DecoderSpec gemma2_spec(const ModelConfig& config) {
  DecoderSpec spec = gemma_spec(config);
  spec.names = tensor_names::gemma2();
  spec.logit_softcap = cap_of(config.final_logit_softcapping);
  for (BlockSpec& block : spec.blocks) {
    block.post_attention_norm = spec.final_norm;
    block.post_feed_forward_norm = spec.final_norm;
    attention_of(block).softcap = cap_of(config.attn_logit_softcapping);
    if (config.query_pre_attn_scalar > 0)
      attention_of(block).scale = static_cast<float>(1.0 / std::sqrt(config.query_pre_attn_scalar));
  }
  set_windows(config, spec, [](std::size_t layer) { return layer % 2 == 0; });
  return spec;
}

}  // namespace

Family gemma() {
  Family family{.defaults = {}, .make_spec = [](const ModelConfig& config) { return gemma_spec(config); }};
  family.defaults.hidden_act = "gelu_pytorch_tanh";
  family.defaults.head_dim = 256;
  family.defaults.max_position_embeddings = 8192;
  family.defaults.tie_word_embeddings = true;
  return family;
}

Family gemma2() {
  Family family = gemma();
  family.make_spec = gemma2_spec;
  family.defaults.query_pre_attn_scalar = 256;
  family.defaults.sliding_window = 4096;
  family.defaults.attn_logit_softcapping = 50;
  family.defaults.final_logit_softcapping = 30;
  return family;
}

}  // namespace tp::families

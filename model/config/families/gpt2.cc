// GPT-2: GPT-NeoX with a position table and transposed weights.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {

nlohmann::json gpt2_config(const ModelMetadata& model) {
  return {{"layer_norm_eps", model.number("attention.layer_norm_epsilon")}, {"hidden_act", "gelu_new"}};
}

ModelSpec gpt2_spec(const CheckpointConfig& config) {
  ModelSpec spec = gpt_neox_spec(config);
  spec.learned_positions = config.max_position_embeddings;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    spec.blocks[layer].wiring = BlockSpec::Wiring::sequential;
    attention_of(spec.blocks[layer]).rope.reset();
    float& scale = attention_of(spec.blocks[layer]).scale;
    if (!config.scale_attn_weights) scale = 1.0F;
    if (config.scale_attn_by_inverse_layer_idx) scale /= static_cast<float>(layer + 1);
  }
  return spec;
}

BlockNames gpt2_block(const std::string& prefix) {
  BlockNames names;
  names.input_norm = prefix + "ln_1";
  set_qkv(names, prefix + "attn.c_attn");
  names.o_proj = prefix + "attn.c_proj";
  names.pre_feed_forward_norm = prefix + "ln_2";
  names.up_proj = prefix + "mlp.c_fc";
  names.down_proj = prefix + "mlp.c_proj";
  names.transposed = true;
  return names;
}

TensorNames gpt2_names() {
  return {.prefix = "transformer.",
          .embed_tokens = "wte",
          .embed_positions = "wpe",
          .final_norm = "ln_f",
          .lm_head = "lm_head",
          .blocks = "h.",
          .names_of_block = gpt2_block,
          .buffers = {".attn.bias", ".attn.masked_bias"}};
}

Family gpt2() {
  Family family{.architecture = "GPT2LMHeadModel", .intermediate_per_hidden = 4, .make_spec = gpt2_spec};
  family.defaults.hidden_act = "gelu_new";
  family.defaults.max_position_embeddings = 1024;
  family.defaults.attention_bias = true;
  family.defaults.mlp_bias = true;
  family.defaults.tie_word_embeddings = true;
  family.names = gpt2_names();
  set_qkv(family.names.gguf.block, "attn_qkv");
  family.gguf = {.architecture = "gpt2", .config = gpt2_config};
  return family;
}

}  // namespace tp::families

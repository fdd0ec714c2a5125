// GPT-NeoX and GPT-2: layer norms, a plain MLP and biases where Llama has none.
#include "model/config/families/family.h"

namespace tp::families {
namespace {

DecoderSpec gpt2_spec(const ModelConfig& config) {
  DecoderSpec spec = gpt_neox_spec(config);
  spec.names = tensor_names::gpt2();
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

}  // namespace

DecoderSpec gpt_neox_spec(const ModelConfig& config) {
  DecoderSpec spec = llama_spec(config);
  spec.names = tensor_names::gpt_neox();
  spec.final_norm = {.kind = NormSpec::Kind::layer, .eps = static_cast<float>(config.layer_norm_eps)};
  for (BlockSpec& block : spec.blocks) {
    if (config.use_parallel_residual) block.wiring = BlockSpec::Wiring::parallel;
    block.input_norm = spec.final_norm;
    block.pre_feed_forward_norm = spec.final_norm;
    block.feed_forward = PlainMlpSpec{.intermediate_size = config.intermediate_size,
                                      .activation = activation_of(config),
                                      .bias = config.mlp_bias};
  }
  return spec;
}

Family gpt_neox() {
  Family family{.defaults = {}, .make_spec = gpt_neox_spec};
  family.defaults.hidden_act = "gelu";
  family.defaults.partial_rotary_factor = 0.25;
  family.defaults.attention_bias = true;
  family.defaults.mlp_bias = true;
  return family;
}

Family gpt2() {
  Family family{.defaults = {}, .intermediate_per_hidden = 4, .make_spec = gpt2_spec};
  family.defaults.hidden_act = "gelu_new";
  family.defaults.max_position_embeddings = 1024;
  family.defaults.attention_bias = true;
  family.defaults.mlp_bias = true;
  family.defaults.tie_word_embeddings = true;
  return family;
}

}  // namespace tp::families

// Llama, and what differs from it by a few numbers.
#include "model/config/config.h"
#include "model/config/families/family.h"
#include "tp/internal/require.h"

#include <cmath>
#include <map>
#include <string>

namespace tp::families {
namespace {

DecoderSpec phi3_spec(const ModelConfig& config) {
  DecoderSpec spec = mistral_spec(config);
  spec.names = tensor_names::phi3();
  return spec;
}

}  // namespace

DecoderSpec llama_spec(const ModelConfig& config) {
  const NormSpec norm{.eps = static_cast<float>(config.rms_norm_eps)};
  BlockSpec block;
  block.input_norm = norm;
  AttentionSpec attention;
  attention.num_attention_heads = config.num_attention_heads;
  attention.num_key_value_heads = config.num_key_value_heads;
  attention.head_dim = config.head_dim;
  attention.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)));
  attention.rope = {config.rope_theta, config.rope_scaling, rotary_dim(config)};
  attention.qkv_bias = config.attention_bias;
  attention.o_bias = config.attention_bias;
  block.attention = attention;
  block.pre_feed_forward_norm = norm;
  block.feed_forward = GatedMlpSpec{.intermediate_size = config.intermediate_size,
                                    .activation = activation_of(config),
                                    .bias = config.mlp_bias};

  DecoderSpec spec;
  spec.names = tensor_names::llama();
  spec.vocab_size = config.vocab_size;
  spec.hidden_size = config.hidden_size;
  spec.max_position_embeddings = config.max_position_embeddings;
  spec.blocks.assign(config.num_hidden_layers, block);
  spec.final_norm = norm;
  spec.tied_embeddings = config.tie_word_embeddings;
  return spec;
}

DecoderSpec mistral_spec(const ModelConfig& config) {
  DecoderSpec spec = llama_spec(config);
  set_windows(config, spec, [](std::size_t) { return true; });
  return spec;
}

DecoderSpec qwen2_spec(const ModelConfig& config) {
  DecoderSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) attention_of(block).qkv_bias = true;
  set_windows(config, spec, [&](std::size_t layer) { return layer >= config.max_window_layers; });
  return spec;
}

DecoderSpec qwen3_spec(const ModelConfig& config) {
  DecoderSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) attention_of(block).query_key_norm = block.input_norm;
  set_windows(config, spec, [&](std::size_t layer) { return layer >= config.max_window_layers; });
  return spec;
}

Activation activation_of(const ModelConfig& config) {
  static const std::map<std::string, Activation> names = {{"silu", Activation::silu},
                                                          {"swish", Activation::silu},
                                                          {"gelu", Activation::gelu},
                                                          {"gelu_new", Activation::gelu_tanh},
                                                          {"gelu_fast", Activation::gelu_tanh},
                                                          {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                          {"relu", Activation::relu}};
  const auto found = names.find(config.hidden_act);
  require<ConfigError>(found != names.end(),
                       "hidden_act \"{}\" is not supported for {}; supported are silu, gelu, gelu_new, "
                       "gelu_pytorch_tanh and relu",
                       config.hidden_act, config.architecture);
  return found->second;
}

Family llama() { return {.defaults = {}, .make_spec = llama_spec}; }

Family mistral() {
  Family family{.defaults = {}, .make_spec = mistral_spec};
  family.defaults.sliding_window = 4096;
  family.defaults.max_position_embeddings = 4096 * 32;
  return family;
}

Family qwen2() {
  Family family{.defaults = {}, .make_spec = qwen2_spec};
  family.defaults.max_position_embeddings = 32768;
  family.defaults.sliding_window = 4096;
  family.defaults.use_sliding_window = false;
  family.defaults.max_window_layers = 28;
  return family;
}

Family qwen3() {
  Family family = qwen2();
  family.make_spec = qwen3_spec;
  family.defaults.head_dim = 128;
  return family;
}

Family phi3() {
  Family family{.defaults = {}, .make_spec = phi3_spec};
  family.defaults.max_position_embeddings = 4096;
  family.defaults.rms_norm_eps = 1e-5;
  return family;
}

}  // namespace tp::families

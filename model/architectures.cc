#include "model/architectures.h"

#include "tp/error.h"

#include <cmath>
#include <functional>
#include <map>

#include <fmt/ranges.h>

namespace tp {
namespace {

DecoderSpec llama(const ModelConfig& config) {
  require<ConfigError>(config.hidden_act == "silu",
                       "hidden_act \"{}\" is not supported for {}; expected \"silu\"", config.hidden_act,
                       config.architecture);
  const NormSpec norm{static_cast<float>(config.rms_norm_eps)};
  BlockSpec block;
  block.input_norm = norm;
  block.attention = {.num_attention_heads = config.num_attention_heads,
                     .num_key_value_heads = config.num_key_value_heads,
                     .head_dim = config.head_dim,
                     .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim))),
                     .qkv_bias = config.attention_bias,
                     .o_bias = config.attention_bias,
                     .sliding_window = std::nullopt};
  block.post_attention_norm = norm;
  block.mlp = {.intermediate_size = config.intermediate_size, .bias = config.mlp_bias};

  DecoderSpec spec;
  spec.vocab_size = config.vocab_size;
  spec.hidden_size = config.hidden_size;
  spec.max_position_embeddings = config.max_position_embeddings;
  spec.rope = {config.rope_theta, config.rope_scaling};
  spec.blocks.assign(config.num_hidden_layers, block);
  spec.final_norm = norm;
  spec.tied_embeddings = config.tie_word_embeddings;
  return spec;
}

// Every family, written as its difference from another.
const std::map<std::string, std::function<DecoderSpec(const ModelConfig&)>>& families() {
  static const std::map<std::string, std::function<DecoderSpec(const ModelConfig&)>> table = {
      {"LlamaForCausalLM", llama},
  };
  return table;
}

}  // namespace

DecoderSpec make_spec(const ModelConfig& config) {
  require_supported(config.architecture);
  return families().at(config.architecture)(config);
}

void require_supported(const std::string& architecture) {
  require<ConfigError>(families().contains(architecture),
                       "models of the family {} are not supported; supported are {}", architecture,
                       fmt::join(supported_architectures(), ", "));
}

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const auto& [name, make] : families()) names.push_back(name);
  return names;
}

}  // namespace tp

// The families of models, each written as its difference from another.
#pragma once

#include "model/config/spec.h"
#include "tp/model_config.h"

#include <cstddef>

namespace tp {

struct Family {
  // What config.json may leave out; numbers that are 0 here it must give.
  ModelConfig defaults;
  // intermediate_size as a multiple of hidden_size where config.json does not give it; 0: it must.
  std::size_t intermediate_per_hidden = 0;
  // Throws ConfigError for a config that the parts cannot express.
  DecoderSpec (*make_spec)(const ModelConfig& config) = nullptr;
};

namespace families {

Family llama();
Family mistral();
Family qwen2();
Family qwen3();
Family phi3();
Family mixtral();
Family qwen2_moe();
Family qwen3_moe();
Family deepseek2();
Family deepseek3();
Family gemma();
Family gemma2();
Family gpt2();
Family gpt_neox();
Family falcon();

// What families start from.
DecoderSpec llama_spec(const ModelConfig& config);
DecoderSpec mistral_spec(const ModelConfig& config);
DecoderSpec qwen2_spec(const ModelConfig& config);
DecoderSpec qwen3_spec(const ModelConfig& config);
DecoderSpec gpt_neox_spec(const ModelConfig& config);

// Throws ConfigError unless a token finds its experts.
void require_experts(const ModelConfig& config, const MixtureOfExpertsSpec& spec);

// hidden_act. Throws ConfigError for one that is not supported.
Activation activation_of(const ModelConfig& config);

// A block's attention, where it is the usual one.
inline AttentionSpec& attention_of(BlockSpec& block) { return std::get<AttentionSpec>(block.attention); }

// Gives layers the sliding window: those that layer_types names where config.json has it, else those for
// which `slides(layer)` is true.
template <class Slides>
void set_windows(const ModelConfig& config, DecoderSpec& spec, const Slides& slides) {
  if (config.sliding_window == 0 || !config.use_sliding_window) return;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    const bool sliding =
        config.layer_types.empty() ? slides(layer) : config.layer_types[layer] == "sliding_attention";
    if (sliding) attention_of(spec.blocks[layer]).pattern.window = config.sliding_window;
  }
}

}  // namespace families
}  // namespace tp

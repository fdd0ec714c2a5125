// What several families have in common, to start from.
#pragma once

#include "model/config/family.h"

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp::families {

DecoderSpec llama_spec(const ModelConfig& config);
DecoderSpec qwen2_spec(const ModelConfig& config);
DecoderSpec qwen3_spec(const ModelConfig& config);
DecoderSpec mistral_spec(const ModelConfig& config);
DecoderSpec gpt_neox_spec(const ModelConfig& config);
DecoderSpec granite_spec(const ModelConfig& config);
DecoderSpec ernie_spec(const ModelConfig& config);
DecoderSpec gpt2_spec(const ModelConfig& config);

TensorNames llama_names();
BlockNames llama_block(const std::string& prefix);
BlockNames gpt_neox_block(const std::string& prefix);
BlockNames gpt2_block(const std::string& prefix);
TensorNames gpt2_names();
// Llama's without norms in front of a block's halves, and with norms behind them: post_attention_layernorm is
// what it says.
BlockNames post_norm_block(const std::string& prefix);
// Mixtral's: experts under block_sparse_moe.
BlockNames mixtral_block(const std::string& prefix);

// A layer norm with gain and bias.
NormSpec layer_norm_of(const ModelConfig& config);

// Gives the halves of all blocks and the end this norm.
void set_norms(DecoderSpec& spec, const NormSpec& norm);

// Makes the halves of all blocks read the same, behind one norm.
void share_input(DecoderSpec& spec);

// Makes the feed-forward halves of all blocks plain MLPs.
void set_plain_mlps(const ModelConfig& config, DecoderSpec& spec);

// Positions come from what scores gain, by slopes that fall to 2^-bias_max over the heads, in place of RoPE.
void set_alibi(const ModelConfig& config, DecoderSpec& spec);

// One tensor for queries, keys and values.
void set_qkv(BlockNames& names, const std::string& name);

// The layers of a gated MLP under Llama's names.
GatedMlpNames gated_mlp(const std::string& prefix);

// Mistral's growth of queries with their position, if the model has it. Throws ConfigError.
std::optional<QueryScalingSpec> query_scaling_of(const ModelConfig& config);

// What configs of mixtures of experts have in common.
MixtureOfExpertsSpec experts_of(const ModelConfig& config);

// DeepSeek-V3's choice of experts: by a sigmoid and a bias, from the best groups.
RouterSpec router_with_correction_bias(const ModelConfig& config);

// Throws ConfigError unless a token finds its experts.
void require_experts(const ModelConfig& config, const MixtureOfExpertsSpec& spec);

// Gives layers the experts for which `has_experts(layer)` is true. Throws ConfigError.
template <class HasExperts>
void set_experts(const ModelConfig& config, const MixtureOfExpertsSpec& experts, DecoderSpec& spec,
                 const HasExperts& has_experts) {
  require_experts(config, experts);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    if (has_experts(layer)) spec.blocks[layer].feed_forward = experts;
  }
}

// Experts in every decoder_sparse_step-th layer, except those in mlp_only_layers. Throws ConfigError.
void set_experts_by_step(const ModelConfig& config, const MixtureOfExpertsSpec& experts, DecoderSpec& spec);

// Of the layer behind the last one, which predicts the token after the next one: `make_spec`'s block of that
// number.
DecoderSpec next_token_spec(const ModelConfig& config, DecoderSpec (*make_spec)(const ModelConfig& config));
// What such a layer has under the names of DeepSeek-V3, where `prefix` is its block's.
NextTokenNames next_token_names(const std::string& prefix);

// Takes no notice of the layers behind the last one, which predict more tokens at a time.
void ignore_next_token_layers(const ModelConfig& config, TensorNames& names);

// hidden_act. Throws ConfigError for one that is not supported.
Activation activation_of(const ModelConfig& config);

// A block's attention, where it is the usual one.
inline AttentionSpec& attention_of(BlockSpec& block) { return std::get<AttentionSpec>(block.attention); }

// The numbers of layers, as fields of config.json: GGUF files count those that predict more tokens at a time
// as blocks, too. Throws ConfigError.
nlohmann::json gguf_next_token_layers(const ModelMetadata& model);

// The sizes of Qwen3-Next's recurrent layers in a GGUF file, as fields of config.json; qwen3_next_config adds
// the experts. Throw CheckpointError or ConfigError for impossible sizes.
nlohmann::json gated_delta_net_config(const ModelMetadata& model);
nlohmann::json qwen3_next_config(const ModelMetadata& model);

// What GGUF files say of windows, as fields of config.json.
nlohmann::json gguf_windows(const ModelMetadata& model);

// Norms what the halves of a block add in the way that they would have normed what they read, and not that.
void norm_results_only(DecoderSpec& spec);

// Takes RoPE from the layers whose entry in no_rope_layers is 0.
void remove_rope(const ModelConfig& config, DecoderSpec& spec);

// Layers with a window have RoPE with this theta, and without scaling.
void set_local_rope(const ModelConfig& config, double theta, DecoderSpec& spec);

// Throws ConfigError if layer_types asks for a window and the config has none.
void require_window(const ModelConfig& config);

// Gives layers the sliding window: those that layer_types names if config.json has it, else those for which
// `slides(layer)` is true. Throws ConfigError.
template <class Slides>
void set_windows(const ModelConfig& config, DecoderSpec& spec, const Slides& slides) {
  if (config.sliding_window == 0 || !config.use_sliding_window) return require_window(config);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    const bool sliding =
        config.layer_types.empty() ? slides(layer) : config.layer_types[layer] == "sliding_attention";
    if (sliding) attention_of(spec.blocks[layer]).pattern.window = config.sliding_window;
  }
}

}  // namespace tp::families

// Parts that several families share.
#pragma once

#include "model/config/family.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tp::families {

// A family's function may begin with another one.
#define TP_FAMILY(name) Family name();
#define TP_ENCODER(name) std::vector<Family> name();
#include "model/config/family_list.inc"
#undef TP_ENCODER
#undef TP_FAMILY

ModelSpec llama_spec(const CheckpointConfig& config);
ModelSpec qwen2_spec(const CheckpointConfig& config);
ModelSpec qwen3_spec(const CheckpointConfig& config);
ModelSpec qwen3_next_spec(const CheckpointConfig& config);
ModelSpec mistral_spec(const CheckpointConfig& config);
ModelSpec gpt_neox_spec(const CheckpointConfig& config);
ModelSpec granite_spec(const CheckpointConfig& config);
ModelSpec ernie_spec(const CheckpointConfig& config);
ModelSpec gpt2_spec(const CheckpointConfig& config);
ModelSpec glm_spec(const CheckpointConfig& config);
ModelSpec deepseek_spec(const CheckpointConfig& config);
ModelSpec kimi_linear_spec(const CheckpointConfig& config);

// A family like another one. Null: the other family's spec and names of blocks.
Family derived(Family family, const std::string& architecture,
               ModelSpec (*make_spec)(const CheckpointConfig& config) = nullptr,
               BlockNames (*names_of_block)(const std::string& prefix) = nullptr);
// A family with Llama's names, but nothing else of Llama's.
Family llama_like(const std::string& architecture, ModelSpec (*make_spec)(const CheckpointConfig& config),
                  BlockNames (*names_of_block)(const std::string& prefix) = nullptr);

TensorNames llama_names();
BlockNames llama_block(const std::string& prefix);
BlockNames gpt_neox_block(const std::string& prefix);
BlockNames gpt2_block(const std::string& prefix);
BlockNames falcon_block(const std::string& prefix);
TensorNames gpt2_names();
// Llama's names, with norms after attention and MLP instead of before: post_attention_layernorm is the norm
// after attention.
BlockNames post_norm_block(const std::string& prefix);
// Llama's names of blocks with plain MLPs.
BlockNames arcee_block(const std::string& prefix);
// Llama's names, with a Mamba-2 mixer, and the MLP under feed_forward.
BlockNames bamba_block(const std::string& prefix);
// Mixtral's names: experts under block_sparse_moe.
BlockNames mixtral_block(const std::string& prefix);
BlockNames deepseek_block(const std::string& prefix);
BlockNames qwen3_next_block(const std::string& prefix);
BlockNames kimi_linear_block(const std::string& prefix);

// A layer norm with gain and bias.
NormSpec layer_norm_of(const CheckpointConfig& config);

// Uses this norm before attention and MLP of all blocks, and as the final norm.
void set_norms(ModelSpec& spec, const NormSpec& norm);

// Makes all blocks parallel, with one norm.
void share_input(ModelSpec& spec);

// The common parts of Gemma 3n and 4: a RoPE for windows, norms of queries, keys and values, unscaled scores,
// norms after the halves of blocks, inputs per layer (if layers have any), a scaled embedding, limited
// logits. Windows must be set before.
void set_gemma_parts(const CheckpointConfig& config, ModelSpec& spec);
// Unmasks one block after the other, each by a schedule and a threshold.
DiffusionSpec unmasked_by_blocks(const CheckpointConfig& config);

// Lets the last layers use the keys and values of the last earlier layer of their type. Checkpoints contain
// the projections and the norm of these layers' own keys and values all the same. Throws ConfigError.
void share_keys_and_values(const CheckpointConfig& config, ModelSpec& spec);
// Gemma 3's names, with those of inputs per layer.
BlockNames gemma_block_with_input(const std::string& prefix);
// Gemma 4, and what Gemma 3n has in common with it.
Family gemma_with_inputs(const std::string& name, ModelSpec (*make_spec)(const CheckpointConfig&),
                         BlockNames (*names_of_block)(const std::string& prefix));

// Gives all blocks plain MLPs.
void set_plain_mlps(const CheckpointConfig& config, ModelSpec& spec);

// ALiBi's slopes, one for each head, which fall to 2^-alibi_bias_max over the heads.
std::vector<float> alibi_slopes(const CheckpointConfig& config);
// Replaces RoPE by ALiBi for tokens that attend to earlier tokens only.
void set_alibi(const CheckpointConfig& config, ModelSpec& spec);

// Names one tensor for queries, keys and values.
void set_qkv(BlockNames& names, const std::string& name);

// Mistral's scaling of queries by position, if the model has it. Throws ConfigError.
std::optional<QueryScalingSpec> query_scaling_of(const CheckpointConfig& config);

// Makes the spec of experts from common fields of configs.
MixtureOfExpertsSpec experts_of(const CheckpointConfig& config);

// DeepSeek-V3's router: sigmoid scores plus a bias, and experts from the best groups only.
RouterSpec router_with_correction_bias(const CheckpointConfig& config);

// Puts experts with this router into the layers from first_k_dense_replace on, if the model has any: with
// n_shared_experts shared ones, which together form one wide expert. Throws ConfigError.
void set_sigmoid_experts(const CheckpointConfig& config, ModelSpec& spec);
// Numbers of such experts in a GGUF file, as fields of config.json.
nlohmann::json sigmoid_experts_in_gguf(const ModelMetadata& model);

// A layer's limit of activations; 0 (no limit) for layers that are not listed.
float limit_of(const std::vector<double>& limits, std::size_t layer);
// The limit in a layer's shared experts or MLP. Only GGUF files have a limit of its own.
float shared_limit_of(const ExpertsConfig& experts, std::size_t layer);

// Throws ConfigError if the router's sizes or the activation are not possible.
void require_experts(const CheckpointConfig& config, const MixtureOfExpertsSpec& spec);

// Puts experts into the layers for which `has_experts(layer)` is true. Throws ConfigError.
template <class HasExperts>
void set_experts(const CheckpointConfig& config, const MixtureOfExpertsSpec& experts, ModelSpec& spec,
                 const HasExperts& has_experts) {
  require_experts(config, experts);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    if (has_experts(layer)) spec.blocks[layer].feed_forward = experts;
  }
}

// Puts experts into every decoder_sparse_step-th layer, except mlp_only_layers. Throws ConfigError.
void set_experts_by_step(const CheckpointConfig& config, const MixtureOfExpertsSpec& experts,
                         ModelSpec& spec);

// Makes the spec of a multi-token prediction layer that is stored after the last layer: the block that
// `make_spec` makes for this layer.
ModelSpec next_token_spec(const CheckpointConfig& config,
                          ModelSpec (*make_spec)(const CheckpointConfig& config));
// The tensors of such a layer whose norm before the LM head is called final_layernorm.
NextTokenNames next_token_with_final_layernorm(const std::string& prefix);
// Ignores multi-token prediction layers, which are stored after the last layer.
void ignore_next_token_layers(const CheckpointConfig& config, TensorNames& names);

// Gives the layers in engram_layer_ids DeepSeek's hash tables, for all streams of mHC. Throws ConfigError if
// engram_num_embeddings has other numbers of rows than follow from the other fields.
void set_engram_tables(const CheckpointConfig& config, ModelSpec& spec);

// hidden_act. Throws ConfigError if the activation is not supported.
Activation activation_of(const CheckpointConfig& config);

// Gives layers of the type "mamba" mixers instead of attention.
void set_mixers(const CheckpointConfig& config, const MambaSpec& mixer, ModelSpec& spec);
// Blocks with a mixer and without MLPs, and a family of them: Mamba-2, and what Mamba has in common with it.
ModelSpec mixers_alone(const CheckpointConfig& config, const AttentionPartSpec& mixer);
Family family_of_mixers_alone(const std::string& architecture,
                              ModelSpec (*make_spec)(const CheckpointConfig&),
                              BlockNames (*names_of_block)(const std::string& prefix));
// Other names of the mixers in layer_types, as transformers 5 writes them.
std::vector<std::pair<std::string, std::string>> mamba_layer_types();
// Variants of mixers that the part cannot express: other values of these fields.
std::vector<FixedField> fixed_mamba_fields();
// layer_types in a GGUF file: layers without KV heads have mixers.
nlohmann::json gguf_mixer_layers(const ModelMetadata& model);

// The tensors of a recurrence with separate projections, under the names that most of these families use.
// in_proj_a and in_proj_z are left to the family.
GatedDeltaNetNames separate_delta_net(const std::string& prefix);

// The elements of a head that RoPE rotates if it rotates this part of it. Throws ConfigError unless they are
// pairs.
std::size_t rotated_elements(const CheckpointConfig& config, double part);

// A block's attention, which must be an AttentionSpec.
inline AttentionSpec& attention_of(BlockSpec& block) { return std::get<AttentionSpec>(block.attention); }

// Numbers of layers, as fields of config.json. GGUF's block count includes multi-token prediction layers.
// Throws ConfigError.
nlohmann::json gguf_next_token_layers(const ModelMetadata& model);

// The epsilon of layer norms, and GELU by tanh, as fields of config.json. Throws CheckpointError.
nlohmann::json gpt2_config(const ModelMetadata& model);

// Sizes of Qwen3-Next's recurrent layers in a GGUF file, as fields of config.json. qwen3_next_config adds the
// experts. Both functions throw CheckpointError or ConfigError for invalid sizes.
nlohmann::json gated_delta_net_config(const ModelMetadata& model);
nlohmann::json qwen3_next_config(const ModelMetadata& model);

// DeepSeek's fields of config.json in a GGUF file. Throws CheckpointError or ConfigError.
nlohmann::json deepseek_config(const ModelMetadata& model);
// DeepSeek's fields with indexers, in all layers or some.
nlohmann::json deepseek_config_with_indexers(const ModelMetadata& model);
// The fields of latent attention among them. `value_dim`: the size of values if the file does not have it.
nlohmann::json latent_attention_in_gguf(const ModelMetadata& model, std::uint64_t value_dim);

// DeepSeek-V4's fields of config.json in a GGUF file, and V4.1's. Both throw CheckpointError or ConfigError.
nlohmann::json deepseek_v4_config(const ModelMetadata& model);
nlohmann::json deepseek_v41_config(const ModelMetadata& model);
// Changes the names of hash tables to those in the file.
void adapt_deepseek_v41_names(const ModelMetadata& model, TensorNames& names);

// GGUF metadata about windows, as fields of config.json.
nlohmann::json gguf_windows(const ModelMetadata& model);

// RoPE of layers with and without a window in a GGUF file, as fields of config.json.
nlohmann::json gguf_ropes_of_types(const ModelMetadata& model);

// Numbers of heads in a GGUF file whose layers may have different ones, as fields of config.json.
nlohmann::json gguf_heads_of_layers(const ModelMetadata& model);

// Limits of activations in a GGUF file, as fields of config.json.
nlohmann::json gguf_activation_limits(const ModelMetadata& model);

// Moves the norms before attention and MLP to their outputs.
void norm_results_only(ModelSpec& spec);

// Removes RoPE from layers whose entry in no_rope_layers is 0.
void remove_rope(const CheckpointConfig& config, ModelSpec& spec);

// Gives layers with a window RoPE with this theta and without scaling.
void set_local_rope(const CheckpointConfig& config, double theta, ModelSpec& spec);

// Throws ConfigError if layer_types contains windows and the config has no window size.
void require_window(const CheckpointConfig& config);

// Gives layers the sliding window: according to config.json's layer_types, or else if `slides(layer)` is
// true. Throws ConfigError.
template <class Slides>
void set_windows(const CheckpointConfig& config, ModelSpec& spec, const Slides& slides) {
  if (config.sliding_window == 0 || !config.use_sliding_window) return require_window(config);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    const bool sliding =
        config.layer_types.empty() ? slides(layer) : config.layer_types[layer] == "sliding_attention";
    if (sliding) attention_of(spec.blocks[layer]).pattern.window = config.sliding_window;
  }
}

}  // namespace tp::families

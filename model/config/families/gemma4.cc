// Gemma 4: Gemma 3 with plain gains, other heads in layers without a window, and, in some models, keys as
// values, keys and values of earlier layers, inputs per layer, and experts in addition to MLPs.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "model/weights/gguf/gguf_vector.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

void set_global_attention(const CheckpointConfig& config, ModelSpec& spec) {
  for (BlockSpec& block : spec.blocks) {
    AttentionSpec& attention = attention_of(block);
    if (attention.pattern.window) continue;
    if (config.global_head_dim != 0) attention.head_dim = config.global_head_dim;
    if (config.num_global_key_value_heads != 0)
      attention.num_key_value_heads = config.num_global_key_value_heads;
    attention.values_are_keys = config.attention_k_eq_v;
    attention.rope->rotary_dim = attention.head_dim;
  }
}

void add_experts(const CheckpointConfig& config, ModelSpec& spec) {
  require<ConfigError>(config.num_experts > 0,
                       "enable_moe_block is true, expected a number of experts (num_experts), found none; "
                       "check config.json");
  const NormSpec norm = *spec.final_norm;
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.activation = activation_of(config);
  experts.router.normalize = true;
  experts.router.input_norm = norm;
  experts.router.input_scale = 1.0F / std::sqrt(static_cast<float>(config.hidden_size));
  experts.router.per_expert_scale = true;
  require_experts(config, experts);
  for (BlockSpec& block : spec.blocks) block.parallel_experts = ParallelExpertsSpec{experts, norm};
}

ModelSpec gemma4_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  set_windows(config, spec, [](std::size_t) { return false; });  // layer_types decides
  attention_of(spec.blocks.back()).pattern.window.reset();       // like the original code
  set_gemma_parts(config, spec);
  for (BlockSpec& block : spec.blocks) block.output_scale = true;
  set_global_attention(config, spec);
  share_keys_and_values(config, spec);
  if (config.enable_moe_block) add_experts(config, spec);
  return spec;
}

// The part of the pairs that RoPE turns in layers without a window. The file has a divisor of each pair's
// frequency: 1 for these pairs, and 1e30 for the others, which come after them.
double turning_part(const ModelMetadata& model) {
  const std::vector<float> divisors = gguf_vector(model.files(), "rope_freqs.weight");
  const auto end = std::ranges::find_if(divisors, [](float divisor) { return divisor != 1.0F; });
  const bool others_rest = std::all_of(end, divisors.end(), [](float divisor) { return divisor >= 1e29F; });
  require<CheckpointError>(end != divisors.begin() && others_rest,
                           "{}: expected a tensor rope_freqs.weight with 1 for each pair that RoPE turns, "
                           "and then 1e30, found {}; "
                           "convert the checkpoint to GGUF again",
                           model.files().name(), divisors.empty() ? "none" : "other numbers");
  return static_cast<double>(end - divisors.begin()) / static_cast<double>(divisors.size());
}

// Whether layers without a window lack values of their own.
bool has_keys_as_values(const ModelMetadata& model) {
  const std::vector<bool> windows = model.booleans("attention.sliding_window_pattern");
  const auto layer = std::ranges::find(windows, false) - windows.begin();
  return !model.has_tensor(fmt::format("blk.{}.attn_v.weight", layer)) &&
         !model.has_tensor(fmt::format("blk.{}.attn_qkv.weight", layer));
}

nlohmann::json gemma4_config(const ModelMetadata& model) {
  const std::uint64_t local_head_dim = model.whole_or("attention.key_length_swa", model.head_dim());
  const std::uint64_t local_rotary_dim = model.whole_or("rope.dimension_count_swa", local_head_dim);
  require<ConfigError>(local_rotary_dim == local_head_dim,
                       "{}: rope.dimension_count_swa must be attention.key_length_swa, {}, found {}; use the "
                       "model's original checkpoint",
                       model.files().name(), local_head_dim, local_rotary_dim);
  nlohmann::json config = gguf_windows(model);
  config.update(
      {{"hidden_act", "gelu_pytorch_tanh"},
       {"head_dim", local_head_dim},
       {"global_head_dim", model.head_dim()},
       {"num_global_key_value_heads", model.kv_heads(/*with_window=*/false)},
       {"attention_k_eq_v", has_keys_as_values(model)},
       {"num_kv_shared_layers", model.whole_or("attention.shared_kv_layers", 0)},
       {"final_logit_softcapping", model.number_or("final_logit_softcapping", 0.0)},
       {"rope_theta", model.number_or("rope.freq_base", 1e6)},
       {"rope_local_base_freq", model.number_or("rope.freq_base_swa", 1e4)},
       {"rotary_dim", nullptr},
       {"rope_scaling", {{"rope_type", "proportional"}, {"partial_rotary_factor", turning_part(model)}}},
       {"hidden_size_per_layer_input", model.whole_or("embedding_length_per_layer_input", 0)}});
  const std::vector<std::uint64_t> widths = model.wholes("feed_forward_length");
  config["use_double_wide_mlp"] = widths.back() == 2 * widths.front();
  if (const GgufFiles::Entry* const table = model.files().find("per_layer_token_embd.weight"))
    config["vocab_size_per_layer_input"] = table->tensor.shape.front();
  if (const std::uint64_t experts = model.whole_or("expert_count", 0); experts != 0) {
    config.update({{"enable_moe_block", true},
                   {"num_experts", experts},
                   {"top_k_experts", model.whole("expert_used_count")},
                   {"moe_intermediate_size", model.whole("expert_feed_forward_length")}});
  }
  return config;
}

BlockNames gemma4_block(const std::string& prefix) {
  BlockNames names = gemma_block_with_input(prefix);
  names.experts = {.router = prefix + "router.proj",
                   .correction_bias = {},
                   .router_scale = prefix + "router.scale",
                   .per_expert_scale = prefix + "router.per_expert_scale",
                   .shared_expert = {},
                   .shared_expert_gate = {},
                   .experts = prefix + "experts.",
                   .parts = usual_names(kOneExpertTensors, "")};
  names.mlp_norm = prefix + "post_feedforward_layernorm_1";
  names.experts_input_norm = prefix + "pre_feedforward_layernorm_2";
  names.experts_norm = prefix + "post_feedforward_layernorm_2";
  names.output_scale = prefix + "layer_scalar";
  return names;
}

}  // namespace

Family gemma_with_inputs(const std::string& name, ModelSpec (*make_spec)(const CheckpointConfig&),
                         BlockNames (*names_of_block)(const std::string& prefix)) {
  Family family{.architecture = name + "ForConditionalGeneration",
                .aliases = {name + "ForCausalLM"},
                .names = llama_names(),
                .make_spec = make_spec};
  family.names.part_prefix = "language_model.";
  family.names.names_of_block = names_of_block;
  family.names.per_layer_inputs = usual_names(kPerLayerInputTensors, "");
  family.defaults.hidden_act = "gelu_pytorch_tanh";
  family.defaults.num_attention_heads = 8;
  family.defaults.head_dim = 256;
  family.defaults.layer_input.vocab_size = 262144;
  family.defaults.layer_input.hidden_size = 256;
  family.defaults.tie_word_embeddings = true;
  family.defaults.sliding_window = 512;
  family.defaults.rope_theta = 1e6;
  family.defaults.rope_local_base_freq = 1e4;
  return family;
}

Family gemma4() {
  Family family = gemma_with_inputs("Gemma4", gemma4_spec, gemma4_block);
  family.gguf = {.architecture = "gemma4", .config = gemma4_config, .stores_windows = true};
  family.defaults.hidden_size = 2304;
  family.defaults.intermediate_size = 9216;
  family.defaults.num_hidden_layers = 30;
  family.defaults.num_key_value_heads = 4;
  family.defaults.global_head_dim = 512;
  family.defaults.vocab_size = 262144;
  family.defaults.max_position_embeddings = 131072;
  family.defaults.sliding_window_pattern = 6;
  family.defaults.rope_scaling = {.kind = RopeScaling::Kind::proportional, .turning_part = 0.25};
  return family;
}

}  // namespace tp::families

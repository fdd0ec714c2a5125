// Gemma 3n: Gemma 3 with plain gains, four residual streams (AltUp), a residual addend of low rank (Laurel),
// inputs per layer, keys and values of earlier layers, and MLPs most of whose gates are 0.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <cmath>
#include <numbers>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp::families {

void set_gemma_parts(const CheckpointConfig& config, ModelSpec& spec) {
  const NormSpec norm = *spec.final_norm;
  NormSpec plain = norm;
  plain.gain = false;
  spec.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  if (config.final_logit_softcapping != 0)
    spec.logit_softcap = static_cast<float>(config.final_logit_softcapping);
  set_local_rope(config, config.rope_local_base_freq, spec);
  const std::size_t input = config.layer_input.hidden_size;
  if (input != 0)
    spec.per_layer_inputs =
        PerLayerInputsSpec{.size = input, .vocab_size = config.layer_input.vocab_size, .norm = norm};
  for (BlockSpec& block : spec.blocks) {
    block.post_attention_norm = block.post_feed_forward_norm = norm;
    if (input != 0)
      block.layer_input = LayerInputSpec{.size = input, .activation = activation_of(config), .norm = norm};
    AttentionSpec& attention = attention_of(block);
    attention.scale = 1.0F;
    attention.query_key_norm = norm;
    attention.value_norm = plain;
  }
}

void share_keys_and_values(const CheckpointConfig& config, ModelSpec& spec) {
  const std::size_t first = config.num_hidden_layers - config.num_kv_shared_layers;
  const BlockNames names = spec.names.names_of_block("");
  for (std::size_t layer = first; layer < spec.blocks.size(); ++layer) {
    AttentionSpec& attention = attention_of(spec.blocks[layer]);
    std::size_t source = first;
    while (source-- > 0) {
      if (attention_of(spec.blocks[source]).pattern == attention.pattern) break;
    }
    require<ConfigError>(
        source < first,
        "num_kv_shared_layers lets layer {} share the keys and values of an earlier layer of "
        "its type, expected such a layer before layer {}, found none; check config.json",
        layer, first);
    attention.shared_kv_layer = source;
    for (const std::string& unused : {names.k_proj, names.v_proj, names.k_norm})
      spec.names.ignored_layers.push_back(fmt::format("{}.{}", layer, unused));
    if (!config.use_double_wide_mlp) continue;
    std::get<GatedMlpSpec>(spec.blocks[layer].feed_forward).intermediate_size *= 2;
  }
}

BlockNames gemma_block_with_input(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.post_attention_norm = prefix + "post_attention_layernorm";
  names.pre_feed_forward_norm = prefix + "pre_feedforward_layernorm";
  names.post_feed_forward_norm = prefix + "post_feedforward_layernorm";
  names.layer_input = usual_names(kLayerInputTensors, prefix);
  return names;
}

namespace {

// The part of a normal distribution that is less than `deviations` standard deviations above the mean.
double part_below(double deviations) { return 0.5 * std::erfc(-deviations / std::numbers::sqrt2); }

// The inverse of part_below, found by bisection. part: above 0 and below 1.
double deviations_above(double part) {
  double low = -40.0;
  double high = 40.0;
  for (double middle = 0.0; low < middle && middle < high; middle = low + (high - low) / 2)
    (part_below(middle) < part ? low : high) = middle;
  return high;
}

// The projections of a layer, and the norm of its keys.
std::size_t parameters_of_keys_and_values(const AttentionSpec& attention, const ModelSpec& spec) {
  const std::size_t rows = 2 * attention.num_key_value_heads * attention.head_dim;
  return rows * (spec.hidden_size + (attention.qkv_bias ? 1 : 0)) + attention.head_dim;
}

ModelSpec gemma3n_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  set_windows(config, spec, [](std::size_t) { return false; });  // layer_types decides
  set_gemma_parts(config, spec);
  share_keys_and_values(config, spec);
  spec.unused_parameters =
      config.num_kv_shared_layers * parameters_of_keys_and_values(attention_of(spec.blocks.front()), spec);
  const NormSpec norm = *spec.final_norm;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    BlockSpec& block = spec.blocks[layer];
    block.laurel = LaurelSpec{.rank = config.laurel.rank, .norm = norm};
    block.altup = AltUpSpec{.streams = config.altup.num_inputs, .norm = norm};
    auto& mlp = std::get<GatedMlpSpec>(block.feed_forward);
    if (!config.intermediate_sizes.empty()) mlp.intermediate_size = config.intermediate_sizes[layer];
    if (const double part = config.activation_sparsity_pattern[layer]; part > 0.0)
      mlp.gate_cutoff = static_cast<float>(deviations_above(part));
  }
  return spec;
}

// The parts of gates that become 0. Files have minus infinity for none.
std::vector<double> sparsity_in(const ModelMetadata& model) {
  std::vector<double> parts;
  for (const double deviations : model.numbers("activation_sparsity_scale"))
    parts.push_back(part_below(deviations));
  return parts;
}

std::uint64_t rows_of(const ModelMetadata& model, const std::string& tensor) {
  const GgufFiles::Entry* const entry = model.files().find(tensor);
  if (entry == nullptr)
    throw_error<CheckpointError>("{}: there is no tensor {}; convert the checkpoint to GGUF again",
                                 model.files().name(), tensor);
  return entry->tensor.shape.front();
}

// A file has one number if all layers have MLPs of one width.
nlohmann::json widths_in(const ModelMetadata& model) {
  const char* const key = "feed_forward_length";
  return model.is_list(key) ? nlohmann::json(model.wholes(key)) : nlohmann::json(model.whole(key));
}

nlohmann::json gemma3n_config(const ModelMetadata& model) {
  nlohmann::json config = gguf_windows(model);
  config.update(numbers_in_gguf(kAltUpNumbers, model));
  config.update({{"hidden_act", "gelu_pytorch_tanh"},
                 {"intermediate_size", widths_in(model)},
                 {"num_kv_shared_layers", model.whole("attention.shared_kv_layers")},
                 {"final_logit_softcapping", model.number_or("final_logit_softcapping", 30.0)},
                 {"rope_theta", model.number_or("rope.freq_base", 1e6)},
                 {"rope_local_base_freq", model.number_or("rope.freq_base_swa", 1e4)},
                 {"hidden_size_per_layer_input", model.whole("embedding_length_per_layer_input")},
                 {"vocab_size_per_layer_input", rows_of(model, "per_layer_token_embd.weight")},
                 {"altup_active_idx", model.whole_or("altup.active_idx", 0)},
                 {"laurel_rank", rows_of(model, "blk.0.laurel_l.weight")},
                 {"activation_sparsity_pattern", sparsity_in(model)}});
  return config;
}

BlockNames gemma3n_block(const std::string& prefix) {
  BlockNames names = gemma_block_with_input(prefix);
  names.laurel = usual_names(kLaurelTensors, prefix + "laurel.");
  names.altup = usual_names(kAltUpTensors, prefix + "altup.");
  return names;
}

}  // namespace

Family gemma3n() {
  Family family = gemma_with_inputs("Gemma3n", gemma3n_spec, gemma3n_block);
  family.has_width_per_layer = true;
  family.fixed_fields = {{"altup_active_idx", "0"}, {"altup_correct_scale", "true"}};
  family.names.altup_streams = usual_names(kAltUpStreamTensors, "");
  family.gguf = {.architecture = "gemma3n", .config = gemma3n_config, .stores_windows = true};
  family.defaults.hidden_size = 2048;
  family.defaults.intermediate_size = 16384;
  family.defaults.num_hidden_layers = 35;
  family.defaults.num_key_value_heads = 2;
  family.defaults.vocab_size = 262400;
  family.defaults.max_position_embeddings = 32768;
  family.defaults.sliding_window_pattern = 5;
  family.defaults.num_kv_shared_layers = 15;
  family.defaults.final_logit_softcapping = 30;
  family.defaults.laurel.rank = 64;
  family.defaults.altup.num_inputs = 4;
  return family;
}

}  // namespace tp::families

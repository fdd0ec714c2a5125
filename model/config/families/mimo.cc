// MiMo-V2: windows with attention sinks in most layers, which have more KV heads and another theta; values
// that are smaller than keys; DeepSeek-V3's choice of experts without a shared one.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <cstddef>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec mimo_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  set_windows(config, spec, [](std::size_t) { return false; });  // the file's pattern decides
  const double local_part = config.local_partial_rotary_factor != 0.0 ? config.local_partial_rotary_factor
                                                                      : config.partial_rotary_factor;
  for (BlockSpec& block : spec.blocks) {
    AttentionSpec& attention = attention_of(block);
    const bool is_local = attention.pattern.window.has_value();
    attention.v_head_dim = config.v_head_dim;
    attention.output_scale = static_cast<float>(config.attention_value_scale);
    attention.sinks = is_local ? config.add_swa_attention_sink_bias : config.add_full_attention_sink_bias;
    if (!is_local) continue;
    if (config.swa_num_key_value_heads != 0) attention.num_key_value_heads = config.swa_num_key_value_heads;
    if (config.rope_local_base_freq != 0.0)
      attention.rope = RopeSpec{.theta = config.rope_local_base_freq,
                                .scaling = {},
                                .rotary_dim = rotated_elements(config, local_part)};
  }
  ignore_next_token_layers(config, spec.names);  // GGUF files store them after the last layer
  set_sigmoid_experts(config, spec);
  return spec;
}

BlockNames mimo_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.sinks = prefix + "self_attn.attention_sink_bias";
  return names;
}

// The number of layers before the first one with experts, as tensors show.
std::size_t dense_layers(const ModelMetadata& model, std::size_t layers) {
  std::size_t layer = 0;
  while (layer < layers && !model.has_tensor(fmt::format("blk.{}.ffn_gate_inp.weight", layer))) ++layer;
  return layer;
}

// Whether layers with (or without) a window have sinks.
bool has_sinks(const ModelMetadata& model, const nlohmann::json& layer_types, const std::string& type) {
  for (std::size_t layer = 0; layer < layer_types.size(); ++layer) {
    if (layer_types[layer] == type) return model.has_tensor(fmt::format("blk.{}.attn_sinks.weight", layer));
  }
  return false;
}

nlohmann::json mimo_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = sigmoid_experts_in_gguf(model);
  config.update(gguf_windows(model));
  config.update(gguf_ropes_of_types(model));
  const nlohmann::json types = config.value("layer_types", nlohmann::json::array());
  config.update({{"first_k_dense_replace", dense_layers(model, config["num_hidden_layers"])},
                 {"norm_topk_prob", model.boolean_or("expert_weights_norm", true)},
                 {"num_key_value_heads", model.kv_heads(/*with_window=*/false)},
                 {"swa_num_key_value_heads", model.kv_heads()},
                 {"v_head_dim", model.value_dim()},
                 {"attention_value_scale", model.number_or("attention.value_scale", 1.0)},
                 {"add_swa_attention_sink_bias", has_sinks(model, types, "sliding_attention")},
                 {"add_full_attention_sink_bias", has_sinks(model, types, "full_attention")}});
  return config;
}

}  // namespace

Family mimo_v2() {
  Family family = llama_like("MiMoV2FlashForCausalLM", mimo_spec, mimo_block);
  family.aliases = {"MiMoV2ForCausalLM"};
  family.fixed_fields = {
      {"scoring_func", "\"sigmoid\""}, {"topk_method", "\"noaux_tc\""}, {"attention_bias", "false"}};
  family.names.ignored_prefixes = {"model.mtp."};
  family.gguf = {.architecture = "mimo2", .config = mimo_in_gguf, .stores_windows = true};
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.v_head_dim = 128;
  family.defaults.experts.norm_topk_prob = true;
  return family;
}

}  // namespace tp::families

// Granite: Llama with factors of the embedding, attention scores, the outputs of attention and MLP, and
// logits. Granite SWA: the same with windows in three of four layers, attention sinks, and RoPE that may
// differ between layers.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <cmath>

#include <nlohmann/json.hpp>

namespace tp::families {

ModelSpec granite_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  spec.embedding_scale = static_cast<float>(config.embedding_multiplier);
  spec.logit_scale = static_cast<float>(1.0 / config.logits_scaling);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).scale = static_cast<float>(config.attention_multiplier);
    block.residual_scale = static_cast<float>(config.residual_multiplier);
  }
  return spec;
}

namespace {

nlohmann::json granite_config(const ModelMetadata& model) {
  const double usual_scale = 1.0 / std::sqrt(static_cast<double>(model.head_dim()));
  return {{"embedding_multiplier", model.number_or("embedding_scale", 1.0)},
          {"residual_multiplier", model.number_or("residual_scale", 1.0)},
          {"attention_multiplier", model.number_or("attention.scale", usual_scale)},
          {"logits_scaling", model.number_or("logit_scale", 1.0)}};
}

ModelSpec granite_swa_spec(const CheckpointConfig& config) {
  ModelSpec spec = granite_spec(config);
  set_windows(config, spec, [](std::size_t layer) { return layer % 4 != 0; });
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    AttentionSpec& attention = attention_of(spec.blocks[layer]);
    attention.sinks = true;
    if (!config.layer_rope_theta.empty() && attention.rope)
      attention.rope->theta = config.layer_rope_theta[layer];
  }
  remove_rope(config, spec);
  return spec;
}

BlockNames granite_swa_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.sinks = prefix + "self_attn.sinks";
  return names;
}

nlohmann::json granite_swa_config(const ModelMetadata& model) {
  nlohmann::json config = granite_config(model);
  config.update(gguf_windows(model));
  const char* const pattern = "attention.rope_pattern";
  if (!model.has(pattern)) return config;
  for (const bool rotates : model.booleans(pattern)) config["no_rope_layers"].push_back(rotates ? 1 : 0);
  return config;
}

}  // namespace

Family granite_swa() {
  Family family = derived(granite(), "GraniteSWAForCausalLM", granite_swa_spec, granite_swa_block);
  family.has_theta_per_layer = true;
  family.defaults.sliding_window = 128;
  family.gguf = {.architecture = "granite_swa",
                 .config = granite_swa_config,
                 .stores_windows = true,
                 .stores_rope_layers = true};
  return family;
}

Family granite() {
  Family family = llama_like("GraniteForCausalLM", granite_spec);
  family.defaults.attention_multiplier = 1.0;
  family.names.gguf.interleaved_query_key = true;
  family.gguf = {.architecture = "granite", .config = granite_config};
  return family;
}

}  // namespace tp::families

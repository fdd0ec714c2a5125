// Granite: Llama with factors of the embedding, attention scores, the outputs of attention and MLP, and
// logits.
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

}  // namespace

Family granite() {
  Family family = llama_like("GraniteForCausalLM", granite_spec);
  family.defaults.attention_multiplier = 1.0;
  family.names.gguf.interleaved_query_key = true;
  family.gguf = {.architecture = "granite", .config = granite_config};
  return family;
}

}  // namespace tp::families

// OLMo: Llama with layer norms without parameters. May clip queries, keys and values.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec olmo_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  set_norms(spec, {.kind = NormSpec::Kind::layer, .eps = 1e-5F, .gain = false, .bias = false});
  return spec;
}

nlohmann::json olmo_config(const ModelMetadata& model) {
  return {{"clip_qkv", model.number_or("attention.clamp_kqv", 0.0)}};
}

}  // namespace

Family olmo() {
  Family family = llama_like("OlmoForCausalLM", olmo_spec);
  family.names.gguf.interleaved_query_key = true;
  family.gguf = {.architecture = "olmo", .config = olmo_config};
  return family;
}

}  // namespace tp::families

// Nemotron and Minitron: Llama with layer norms whose gains are stored minus 1, a plain MLP, and partial
// RoPE.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec nemotron_spec(const CheckpointConfig& config) {
  ModelSpec spec = gpt_neox_spec(config);
  NormSpec norm = *spec.final_norm;
  norm.gain_offset = 1.0F;
  set_norms(spec, norm);
  return spec;
}

nlohmann::json nemotron_config(const ModelMetadata& model) {
  return {{"layer_norm_eps", model.number("attention.layer_norm_epsilon")}, {"hidden_act", "relu2"}};
}

}  // namespace

Family nemotron() {
  Family family = llama_like("NemotronForCausalLM", nemotron_spec, arcee_block);
  family.defaults.hidden_act = "relu2";
  family.defaults.max_position_embeddings = 4096;
  family.defaults.partial_rotary_factor = 0.5;
  family.defaults.use_parallel_residual = false;
  family.names.gguf.norm_offset = 1.0F;
  family.gguf = {.architecture = "nemotron", .config = nemotron_config};
  return family;
}

}  // namespace tp::families

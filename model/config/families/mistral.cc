// Mistral: Llama with a sliding window. Ministral: with a window in some layers only. Mixtral: Mistral with
// experts instead of MLPs.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec mixtral_spec(const CheckpointConfig& config) {
  ModelSpec spec = mistral_spec(config);
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router.normalize = true;
  set_experts(config, experts, spec, [](std::size_t) { return true; });
  return spec;
}

nlohmann::json mixtral_config(const ModelMetadata& model) {
  return {{"num_local_experts", model.whole("expert_count")},
          {"num_experts_per_tok", model.whole("expert_used_count")}};
}

}  // namespace

BlockNames mixtral_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.experts.router = prefix + "block_sparse_moe.gate";
  names.experts.experts = prefix + "block_sparse_moe.experts.";
  names.experts.parts = {"w1", "w3", "w2"};
  return names;
}

ModelSpec mistral_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  set_windows(config, spec, [](std::size_t) { return true; });
  return spec;
}

Family mistral() {
  Family family = llama_like("MistralForCausalLM", mistral_spec);
  family.defaults.sliding_window = 4096;
  family.defaults.max_position_embeddings = 4096 * 32;
  family.names.gguf.interleaved_query_key = true;
  // GGUF files are read as Llama and lack the window.
  family.gguf = {.architecture = "llama", .is_of = [](const ModelMetadata&) { return false; }};
  return family;
}

Family ministral() {
  Family family = derived(mistral(), "MinistralForCausalLM");
  family.defaults.num_key_value_heads = 8;
  return family;
}

Family mixtral() {
  Family family = llama_like("MixtralForCausalLM", mixtral_spec, mixtral_block);
  family.defaults.max_position_embeddings = 4096 * 32;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.rope_theta = 1e6;
  family.defaults.num_experts = 8;
  family.defaults.experts.num_experts_per_tok = 2;
  family.names.gguf.interleaved_query_key = true;
  family.gguf = {.architecture = "llama",
                 .is_of = [](const ModelMetadata& model) { return model.has_experts(); },
                 .config = mixtral_config};
  return family;
}

}  // namespace tp::families

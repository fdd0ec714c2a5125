// OLMoE: Llama with one norm over all query heads, one over all key heads, clipped queries, keys and values,
// and experts.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec olmoe_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) {
    AttentionSpec& attention = attention_of(block);
    attention.query_key_norm = block.input_norm;
    attention.norms_whole_projections = true;
    if (config.clip_qkv != 0) attention.clip_qkv = static_cast<float>(config.clip_qkv);
  }
  set_experts(config, experts_of(config), spec, [](std::size_t) { return true; });
  return spec;
}

nlohmann::json olmoe_config(const ModelMetadata& model) {
  return {{"num_experts", model.whole("expert_count")},
          {"num_experts_per_tok", model.whole("expert_used_count")},
          {"norm_topk_prob", false},
          {"clip_qkv", model.number_or("attention.clamp_kqv", 0.0)}};
}

}  // namespace

Family olmoe() {
  Family family = llama_like("OlmoeForCausalLM", olmoe_spec);
  family.gguf = {.architecture = "olmoe", .config = olmoe_config};
  family.defaults.max_position_embeddings = 4096;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.num_experts = 64;
  family.defaults.experts.num_experts_per_tok = 8;
  return family;
}

}  // namespace tp::families

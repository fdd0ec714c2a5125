// Granite with experts, stored in stacks.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec granite_moe_spec(const CheckpointConfig& config) {
  ModelSpec spec = granite_spec(config);
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router.normalize = true;
  set_experts(config, experts, spec, [](std::size_t) { return true; });
  return spec;
}

BlockNames granite_moe_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  const std::string moe = prefix + "block_sparse_moe.";
  names.experts.router = moe + "router.layer";
  names.experts.experts = moe + "experts.";
  names.experts.stacks = {.gate_up_proj = moe + "input_linear.weight",
                          .gate_up_bias = {},
                          .down_proj = moe + "output_linear.weight",
                          .down_bias = {}};
  return names;
}

nlohmann::json granite_moe_config(const ModelMetadata& model) {
  return {{"num_local_experts", model.whole("expert_count")},
          {"num_experts_per_tok", model.whole("expert_used_count")},
          {"embedding_multiplier", model.number_or("embedding_scale", 1.0)},
          {"residual_multiplier", model.number_or("residual_scale", 1.0)},
          {"attention_multiplier", model.number("attention.scale")},
          {"logits_scaling", model.number_or("logit_scale", 1.0)}};
}

}  // namespace

Family granite_moe() {
  Family family = derived(granite(), "GraniteMoeForCausalLM", granite_moe_spec, granite_moe_block);
  family.names.gguf.interleaved_query_key = true;
  family.gguf = {.architecture = "granitemoe", .config = granite_moe_config};
  family.defaults.num_experts = 8;
  family.defaults.experts.num_experts_per_tok = 2;
  return family;
}

}  // namespace tp::families

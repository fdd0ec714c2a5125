// Phi-3.5-MoE: Mixtral with layer norms, biases, and sparse_mixer routing.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec phimoe_spec(const CheckpointConfig& config) {
  ModelSpec spec = mistral_spec(config);
  spec.final_norm = NormSpec{.kind = NormSpec::Kind::layer, .eps = static_cast<float>(config.rms_norm_eps)};
  spec.lm_head_bias = config.lm_head_bias;
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router.scoring = RouterSpec::Scoring::sparse_mixer;
  experts.router.tolerance = static_cast<float>(2 * config.experts.router_jitter_noise);
  set_experts(config, experts, spec, [](std::size_t) { return true; });
  for (BlockSpec& block : spec.blocks) block.input_norm = block.pre_feed_forward_norm = spec.final_norm;
  return spec;
}

nlohmann::json phimoe_config(const ModelMetadata& model) {
  const std::uint64_t window = model.whole_or("attention.sliding_window", 0);
  return {{"num_local_experts", model.whole("expert_count")},
          {"num_experts_per_tok", model.whole("expert_used_count")},
          {"lm_head_bias", model.has_tensor("output.bias")},
          {"sliding_window", window == 0 ? nlohmann::json(nullptr) : nlohmann::json(window)}};
}

}  // namespace

Family phimoe() {
  Family family = derived(mixtral(), "PhimoeForCausalLM", phimoe_spec);
  family.aliases = {"PhiMoEForCausalLM"};  // name in the code of published checkpoints
  family.names.gguf = {};
  family.gguf = {.architecture = "phimoe", .config = phimoe_config};
  family.defaults.num_experts = 16;
  family.defaults.experts.router_jitter_noise = 0.01;
  return family;
}

}  // namespace tp::families

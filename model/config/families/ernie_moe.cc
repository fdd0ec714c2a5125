// ERNIE 4.5 with experts, chosen by softmax scores plus a bias.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec ernie_moe_spec(const CheckpointConfig& config) {
  ModelSpec spec = ernie_spec(config);
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router.correction_bias = true;
  experts.router.normalize = true;
  experts.router.min_sum = static_cast<float>(config.experts.moe_norm_min);
  experts.shared_intermediate_size = config.experts.n_shared_experts * config.experts.moe_intermediate_size;
  set_experts(config, experts, spec, [&](std::size_t layer) {
    return layer >= config.experts.moe_layer_start_index && layer <= config.experts.moe_layer_end_index &&
           (layer + 1) % config.experts.moe_layer_interval == 0;
  });
  return spec;
}

BlockNames ernie_moe_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.experts.correction_bias = prefix + "mlp.moe_statics.e_score_correction_bias";
  names.experts.shared_expert = usual_names(kSharedExpertTensors, prefix + "mlp.shared_experts.");
  return names;
}

nlohmann::json ernie_moe_config(const ModelMetadata& model) {
  return {{"moe_num_experts", model.whole("expert_count")},
          {"moe_k", model.whole("expert_used_count")},
          {"moe_num_shared_experts", model.whole_or("expert_shared_count", 0)},
          {"moe_intermediate_size", model.whole("expert_feed_forward_length")},
          {"moe_layer_start_index", model.whole_or("leading_dense_block_count", 0)},
          {"moe_layer_interval", model.whole_or("interleave_moe_layer_step", 1)}};
}

}  // namespace

Family ernie_moe() {
  Family family = derived(ernie(), "Ernie4_5_MoeForCausalLM", ernie_moe_spec, ernie_moe_block);
  family.fixed_fields = {{"use_bias", "false"}};
  family.gguf = {.architecture = "ernie4_5-moe", .config = ernie_moe_config};
  family.defaults.head_dim = 0;
  family.defaults.num_key_value_heads = 4;
  family.defaults.num_experts = 64;
  family.defaults.experts.num_experts_per_tok = 6;
  family.defaults.experts.n_shared_experts = 2;
  family.defaults.experts.moe_intermediate_size = 1536;
  family.defaults.experts.moe_layer_start_index = 1;
  family.defaults.experts.moe_norm_min = 1e-12;
  return family;
}

}  // namespace tp::families

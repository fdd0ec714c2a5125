// Hunyuan: Llama with norms of queries and keys after RoPE. Hunyuan-A13B: the same with experts.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec hunyuan_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).query_key_norm = spec.final_norm;
    attention_of(block).norms_after_rope = true;
  }
  return spec;
}

BlockNames hunyuan_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.q_norm = prefix + "self_attn.query_layernorm";
  names.k_norm = prefix + "self_attn.key_layernorm";
  return names;
}

ModelSpec hunyuan_moe_spec(const CheckpointConfig& config) {
  ModelSpec spec = hunyuan_spec(config);
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router.normalize = true;
  experts.shared_intermediate_size = config.experts.n_shared_experts * config.intermediate_size;
  set_experts(config, experts, spec, [](std::size_t) { return true; });
  return spec;
}

BlockNames hunyuan_moe_block(const std::string& prefix) {
  BlockNames names = hunyuan_block(prefix);
  names.experts.router = prefix + "mlp.gate.wg";
  names.experts.shared_expert = usual_names(kSharedExpertTensors, prefix + "mlp.shared_mlp.");
  return names;
}

nlohmann::json hunyuan_moe_in_gguf(const ModelMetadata& model) {
  return {{"num_experts", model.whole("expert_count")},
          {"num_experts_per_tok", model.whole("expert_used_count")},
          {"num_shared_expert", model.whole_or("expert_shared_count", 1)}};
}

}  // namespace

Family hunyuan() {
  Family family = llama_like("HunYuanDenseV1ForCausalLM", hunyuan_spec, hunyuan_block);
  family.defaults.rms_norm_eps = 1e-5;
  family.gguf = {.architecture = "hunyuan-dense"};
  return family;
}

Family hunyuan_moe() {
  Family family = derived(hunyuan(), "HunYuanMoEV1ForCausalLM", hunyuan_moe_spec, hunyuan_moe_block);
  family.fixed_fields = {{"use_mla", "false"},           {"use_cla", "false"},
                         {"use_qk_norm", "true"},        {"use_rotary_pos_emb", "true"},
                         {"norm_type", "\"rms\""},       {"group_limited_greedy", "false"},
                         {"moe_layer_num_skipped", "0"}, {"routed_scaling_factor", "1.0"},
                         {"norm_topk_prob", "true"}};
  family.defaults.experts.n_shared_experts = 1;
  family.gguf = {.architecture = "hunyuan-moe", .config = hunyuan_moe_in_gguf};
  return family;
}

}  // namespace tp::families

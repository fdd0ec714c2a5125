// Hy3: Qwen 3 with DeepSeek-V3's choice of experts.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

ModelSpec hy3_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) attention_of(block).query_key_norm = block.input_norm;
  ignore_next_token_layers(config, spec.names);
  set_sigmoid_experts(config, spec);
  return spec;
}

ModelSpec hy3_next_token_spec(const CheckpointConfig& config) { return next_token_spec(config, hy3_spec); }

BlockNames hy3_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.next_token = next_token_with_final_layernorm(prefix);
  names.experts.router = prefix + "mlp.router.gate";
  names.experts.correction_bias = prefix + "mlp.expert_bias";
  names.experts.shared_expert = usual_names(kSharedExpertTensors, prefix + "mlp.shared_mlp.");
  return names;
}

}  // namespace

Family hy3() {
  Family family = llama_like("HYV3ForCausalLM", hy3_spec, hy3_block);
  family.fixed_fields = {
      {"qk_norm", "true"}, {"moe_router_use_sigmoid", "true"}, {"moe_router_enable_expert_bias", "true"}};
  family.make_next_token_spec = hy3_next_token_spec;
  family.gguf = {.architecture = "hy_v3", .config = sigmoid_experts_in_gguf};
  family.defaults.max_position_embeddings = 262144;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.rope_theta = 11158840;
  family.defaults.experts.routed_scaling_factor = 2.826;
  family.defaults.head_dim = 128;
  family.defaults.num_experts = 192;
  family.defaults.experts.num_experts_per_tok = 8;
  family.defaults.experts.n_shared_experts = 1;
  family.defaults.experts.norm_topk_prob = true;
  family.defaults.experts.first_k_dense_replace = 1;
  return family;
}

}  // namespace tp::families

// MiniMax-M2: Llama with one norm over all query heads and one over all key heads, Mixtral's tensor names,
// and DeepSeek-V3's choice of experts.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec minimax_m2_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).query_key_norm = block.input_norm;
    attention_of(block).norms_whole_projections = true;
  }
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router = router_with_correction_bias(config);
  set_experts(config, experts, spec, [](std::size_t) { return true; });
  return spec;
}

BlockNames minimax_m2_block(const std::string& prefix) {
  BlockNames names = mixtral_block(prefix);
  names.experts.correction_bias = prefix + "block_sparse_moe.e_score_correction_bias";
  return names;
}

nlohmann::json minimax_m2_config(const ModelMetadata& model) {
  return {{"num_local_experts", model.whole("expert_count")},
          {"num_experts_per_tok", model.whole("expert_used_count")},
          {"intermediate_size", model.whole("expert_feed_forward_length")}};
}

}  // namespace

Family minimax_m2() {
  Family family = llama_like("MiniMaxM2ForCausalLM", minimax_m2_spec, minimax_m2_block);
  family.names.buffers.emplace_back(".weight_scale_inv");  // factors of F8 elements, part of their tensors
  family.gguf = {.architecture = "minimax-m2", .config = minimax_m2_config};
  family.fixed_fields = {{"scoring_func", R"("sigmoid")"},
                         {"use_routing_bias", "true"},
                         {"use_qk_norm", "true"},
                         {"qk_norm_type", R"("per_layer")"},
                         {"shared_intermediate_size", "0"}};
  family.defaults.head_dim = 128;
  family.defaults.max_position_embeddings = 196608;
  family.defaults.rope_theta = 5e6;
  family.defaults.experts.norm_topk_prob = true;
  return family;
}

}  // namespace tp::families

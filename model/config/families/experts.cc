// Families whose feed-forward half is a mixture of experts.
#include "model/config/families/family.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <string>

namespace tp::families {
namespace {

MixtureOfExpertsSpec qwen_experts(const ModelConfig& config) {
  MixtureOfExpertsSpec spec;
  spec.router.num_experts = config.num_experts;
  spec.router.num_experts_per_tok = config.num_experts_per_tok;
  spec.router.normalize = config.norm_topk_prob;
  spec.intermediate_size = config.moe_intermediate_size;
  return spec;
}

// Qwen's layers: experts in every decoder_sparse_step-th, but for those that mlp_only_layers names.
void set_qwen_experts(const ModelConfig& config, const MixtureOfExpertsSpec& experts, DecoderSpec& spec) {
  require_experts(config, experts);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    const auto& dense = config.mlp_only_layers;
    const bool is_dense = std::find(dense.begin(), dense.end(), layer) != dense.end();
    if (!is_dense && (layer + 1) % config.decoder_sparse_step == 0) spec.blocks[layer].feed_forward = experts;
  }
}

DecoderSpec mixtral_spec(const ModelConfig& config) {
  DecoderSpec spec = mistral_spec(config);
  spec.names = tensor_names::mixtral();
  MixtureOfExpertsSpec experts = qwen_experts(config);
  experts.router.normalize = true;
  require_experts(config, experts);
  for (BlockSpec& block : spec.blocks) block.feed_forward = experts;
  return spec;
}

DecoderSpec qwen2_moe_spec(const ModelConfig& config) {
  DecoderSpec spec = qwen2_spec(config);
  MixtureOfExpertsSpec experts = qwen_experts(config);
  experts.shared_intermediate_size = config.shared_expert_intermediate_size;
  experts.shared_expert_gate = true;
  set_qwen_experts(config, experts, spec);
  return spec;
}

DecoderSpec qwen3_moe_spec(const ModelConfig& config) {
  DecoderSpec spec = qwen3_spec(config);
  set_qwen_experts(config, qwen_experts(config), spec);
  return spec;
}

}  // namespace

void require_experts(const ModelConfig& config, const MixtureOfExpertsSpec& spec) {
  const RouterSpec& router = spec.router;
  require<ConfigError>(config.hidden_act == "silu",
                       "hidden_act \"{}\" is not supported for the experts of {}; expected \"silu\"",
                       config.hidden_act, config.architecture);
  require<ConfigError>(router.num_experts_per_tok <= router.num_experts,
                       "num_experts_per_tok must be at most the number of experts, {}, found {}",
                       router.num_experts, router.num_experts_per_tok);
  require<ConfigError>(router.num_experts % router.num_groups == 0,
                       "n_group must divide the number of experts, {}, found {}", router.num_experts,
                       router.num_groups);
  const std::size_t group_size = router.num_experts / router.num_groups;
  require<ConfigError>(
      router.experts_scoring_group <= group_size,
      "a group must have at least the {} experts that its score is the sum of, found {} (n_group {} "
      "for {} experts)",
      router.experts_scoring_group, group_size, router.num_groups, router.num_experts);
  require<ConfigError>(
      router.groups_per_tok <= router.num_groups &&
          router.num_experts_per_tok <= router.groups_per_tok * group_size,
      "topk_group must be at most n_group, {}, and its groups of {} experts must hold the {} of "
      "num_experts_per_tok; found {}",
      router.num_groups, group_size, router.num_experts_per_tok, router.groups_per_tok);
}

Family mixtral() {
  Family family{.defaults = {}, .make_spec = mixtral_spec};
  family.defaults.max_position_embeddings = 4096 * 32;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.rope_theta = 1e6;
  family.defaults.num_experts = 8;
  family.defaults.num_experts_per_tok = 2;
  return family;
}

Family qwen2_moe() {
  Family family = qwen2();
  family.make_spec = qwen2_moe_spec;
  family.defaults.num_experts = 60;
  family.defaults.num_experts_per_tok = 4;
  family.defaults.moe_intermediate_size = 1408;
  family.defaults.shared_expert_intermediate_size = 5632;
  return family;
}

Family qwen3_moe() {
  Family family = qwen2();
  family.make_spec = qwen3_moe_spec;
  family.defaults.num_experts = 128;
  family.defaults.num_experts_per_tok = 8;
  family.defaults.moe_intermediate_size = 768;
  return family;
}

}  // namespace tp::families

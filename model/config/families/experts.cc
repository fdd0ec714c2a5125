// What families with mixtures of experts have in common.
#include "model/config/families/common.h"
#include "tp/internal/require.h"

namespace tp::families {

MixtureOfExpertsSpec experts_of(const ModelConfig& config) {
  MixtureOfExpertsSpec spec;
  spec.router.num_experts = config.num_experts;
  spec.router.num_experts_per_tok = config.num_experts_per_tok;
  spec.router.normalize = config.norm_topk_prob;
  spec.intermediate_size = config.moe_intermediate_size;
  return spec;
}

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

}  // namespace tp::families

// DeepSeek-V2 and V3: latent attention and experts, some of them shared.
#include "model/config/config.h"
#include "model/config/families/family.h"
#include "tp/internal/require.h"

#include <cmath>

namespace tp::families {
namespace {

LatentAttentionSpec latent_attention(const ModelConfig& config) {
  require<ConfigError>(!config.attention_bias, "attention_bias is not supported for {}; expected false",
                       config.architecture);
  require<ConfigError>(config.kv_lora_rank != 0, "kv_lora_rank is not given, which {} needs",
                       config.architecture);
  LatentAttentionSpec spec;
  spec.num_attention_heads = config.num_attention_heads;
  if (config.q_lora_rank != 0) spec.q_lora_rank = config.q_lora_rank;
  spec.kv_lora_rank = config.kv_lora_rank;
  spec.qk_nope_head_dim = config.qk_nope_head_dim;
  spec.qk_rope_head_dim = config.qk_rope_head_dim;
  spec.v_head_dim = config.v_head_dim;
  const double mscale = config.rope_scaling.score_factor;
  spec.scale = static_cast<float>(
      mscale * mscale / std::sqrt(static_cast<double>(spec.qk_nope_head_dim + spec.qk_rope_head_dim)));
  spec.rope = {config.rope_theta, config.rope_scaling, rotary_dim(config)};
  spec.interleaved_rope = config.rope_interleave;
  return spec;
}

RouterSpec router(const ModelConfig& config) {
  require<ConfigError>(config.scoring_func == "softmax" || config.scoring_func == "sigmoid",
                       "scoring_func must be softmax or sigmoid, found \"{}\"", config.scoring_func);
  RouterSpec spec;
  spec.num_experts = config.num_experts;
  spec.num_experts_per_tok = config.num_experts_per_tok;
  spec.scoring =
      config.scoring_func == "softmax" ? RouterSpec::Scoring::softmax : RouterSpec::Scoring::sigmoid;
  spec.normalize = config.norm_topk_prob;
  spec.scale = static_cast<float>(config.routed_scaling_factor);
  if (config.topk_method == "greedy") return spec;
  require<ConfigError>(config.topk_method == "group_limited_greedy" || config.topk_method == "noaux_tc",
                       "topk_method must be greedy, group_limited_greedy or noaux_tc, found \"{}\"",
                       config.topk_method);
  spec.num_groups = config.n_group;
  spec.groups_per_tok = config.topk_group;
  if (config.topk_method == "noaux_tc") {
    spec.correction_bias = true;
    spec.experts_scoring_group = 2;
  }
  return spec;
}

DecoderSpec deepseek_spec(const ModelConfig& config) {
  DecoderSpec spec = llama_spec(config);
  spec.names = tensor_names::deepseek();
  MixtureOfExpertsSpec experts;
  experts.router = router(config);
  experts.intermediate_size = config.moe_intermediate_size;
  experts.shared_intermediate_size = config.n_shared_experts * config.moe_intermediate_size;
  if (config.num_experts != 0) require_experts(config, experts);
  for (std::size_t i = 0; i < config.num_nextn_predict_layers; ++i)
    spec.names.ignored_blocks.push_back(config.num_hidden_layers + i);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    spec.blocks[layer].attention = latent_attention(config);
    if (config.num_experts != 0 && layer >= config.first_k_dense_replace &&
        layer % config.moe_layer_freq == 0) {
      spec.blocks[layer].feed_forward = experts;
    }
  }
  return spec;
}

}  // namespace

Family deepseek2() {
  Family family{.defaults = {}, .make_spec = deepseek_spec};
  family.defaults.scoring_func = "softmax";
  family.defaults.topk_method = "greedy";
  return family;
}

Family deepseek3() {
  Family family{.defaults = {}, .make_spec = deepseek_spec};
  family.defaults.max_position_embeddings = 4096;
  family.defaults.norm_topk_prob = true;
  family.defaults.scoring_func = "sigmoid";
  family.defaults.topk_method = "noaux_tc";
  family.defaults.routed_scaling_factor = 2.5;
  return family;
}

}  // namespace tp::families

// Hy4: DeepSeek-V3.2 with hyper-connections, attention sinks and a gate for each element of attention's
// output, other indexers, and experts whose gates are limited.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

// RoPE turns neighbours, in indexers the last elements of a head, although transformers' class turns halves:
// published weights are meant for neighbours.
void set_attention(float eps, LatentAttentionSpec& attention) {
  attention.latent_norm_eps = eps;
  attention.element_gate = true;
  attention.sinks = true;
  if (!attention.indexer) return;
  attention.indexer->rotates_last = true;
  attention.indexer->norm_eps = eps;
}

ModelSpec hy4_spec(const CheckpointConfig& config) {
  const auto eps = static_cast<float>(config.rms_norm_eps);
  ModelSpec spec = deepseek_spec(config);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    BlockSpec& block = spec.blocks[layer];
    block.hyper_connection =
        HyperConnectionSpec{.streams = config.hyper_connection.mult,
                            .norm_eps = eps,
                            .eps = static_cast<float>(config.hyper_connection.eps),
                            .magnitude = static_cast<float>(config.hyper_connection.magnitude)};
    set_attention(eps, std::get<LatentAttentionSpec>(block.attention));
    if (auto* const experts = std::get_if<MixtureOfExpertsSpec>(&block.feed_forward)) {
      experts->limit = limit_of(config.experts.swiglu_limits, layer);
      experts->limits_gate = true;
    }
  }
  return spec;
}

BlockNames hy4_block(const std::string& prefix) {
  BlockNames names = deepseek_block(prefix);
  names.latent_attention.gate = prefix + "self_attn.linear_gate";
  names.latent_attention.sinks = prefix + "self_attn.learnable_sink_param";
  names.attention_connection = usual_names(kAttentionConnectionTensors, prefix + "hc_attn_layer.hc_pre.hc_");
  names.feed_forward_connection =
      usual_names(kFeedForwardConnectionTensors, prefix + "hc_mlp_layer.hc_pre.hc_");
  names.next_token = {};
  return names;
}

nlohmann::json hy4_config(const ModelMetadata& model) {
  nlohmann::json config = deepseek_config_with_indexers(model);
  config.update(numbers_in_gguf(kHyperConnectionNumbers, model));
  config["swiglu_limits"] = std::vector<double>(model.whole("block_count"));  // if there are none
  config.update(gguf_activation_limits(model));
  config.update({{"hc_eps", model.number("hyper_connection.epsilon")},
                 {"hc_magnitude", model.number("hyper_connection.magnitude")}});
  return config;
}

}  // namespace

Family hy4() {
  Family family = derived(glm_moe_dsa(), "HYV4ForCausalLM", hy4_spec, hy4_block);
  family.make_next_token_spec = nullptr;
  family.names.last_connection = usual_names(kLastConnectionTensors, "hc_head.hc_head_");
  family.names.ignored_prefixes = {"model.mtp_layers."};
  family.gguf = {.architecture = "hy_v4", .config = hy4_config};
  family.fixed_fields = {
      {"gated_mla", "true"}, {"gating_type", R"("elementwise")"}, {"learnable_sink", "true"}};
  family.defaults.max_position_embeddings = 262144;
  family.defaults.rope_theta = 1e7;
  family.defaults.indexer.topk_freq = 4;
  family.defaults.experts.first_k_dense_replace = 1;
  family.defaults.experts.routed_scaling_factor = 2.827;
  family.defaults.experts.swiglu_limit = 10.0;
  family.defaults.hyper_connection.mult = 4;
  return family;
}

}  // namespace tp::families

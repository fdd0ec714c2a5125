// GLM-5.3: Kimi-Linear's layers with hyper-connections that mix streams, indexers that choose pools of
// positions, and limited gates in all MLPs.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

void set_limits(const CheckpointConfig& config, std::size_t layer, FeedForwardSpec& feed_forward) {
  const float shared_limit = shared_limit_of(config.experts, layer);
  if (auto* const experts = std::get_if<MixtureOfExpertsSpec>(&feed_forward)) {
    experts->limit = limit_of(config.experts.swiglu_limits, layer);
    experts->shared_limit = shared_limit;
    experts->limits_gate = true;
  } else {
    auto& mlp = std::get<GatedMlpSpec>(feed_forward);
    mlp.limit = shared_limit;
    mlp.limits_gate = true;
  }
}

ModelSpec glm5_next_spec(const CheckpointConfig& config) {
  const auto eps = static_cast<float>(config.rms_norm_eps);
  require<ConfigError>(std::ranges::find(config.indexer.types, "shared") == config.indexer.types.end(),
                       "indexer_types must be \"full\" in all layers of {}, found \"shared\"; use a model "
                       "without this variant",
                       config.architecture);
  ModelSpec spec = kimi_linear_spec(config);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    BlockSpec& block = spec.blocks[layer];
    block.hyper_connection = HyperConnectionSpec{.streams = config.hyper_connection.mult,
                                                 .norm_eps = eps,
                                                 .eps = static_cast<float>(config.hyper_connection.eps),
                                                 .sinkhorn_steps = config.hyper_connection.sinkhorn_iters,
                                                 .ends_in_mean = true};
    set_limits(config, layer, block.feed_forward);
    // Published configs have indexer_rope_interleave, but there is no RoPE.
    if (auto* const latent = std::get_if<LatentAttentionSpec>(&block.attention))
      latent->indexer->interleaved_rope = false;
  }
  return spec;
}

BlockNames glm5_next_block(const std::string& prefix) {
  BlockNames names = kimi_linear_block(prefix);
  names.experts = deepseek_block(prefix).experts;
  names.attention_connection = usual_names(kAttentionConnectionTensors, prefix + "hc_attn_");
  names.feed_forward_connection = usual_names(kFeedForwardConnectionTensors, prefix + "hc_ffn_");
  const std::string pools = prefix + "self_attn.indexer.index_kpool_compress_";
  names.latent_attention.indexer.pool_gate = pools + "gate";
  names.latent_attention.indexer.pool_addends = pools + "ape";
  return names;
}

// The names of transformers' modules, under which some quantized checkpoints are stored. Queries, keys and
// values share a convolution. Source: transformers, modular_glm5_next.py.
BlockNames glm5_next_modules(const std::string& prefix) {
  BlockNames names = glm5_next_block(prefix);
  const std::string gate = prefix + "self_attn.forget_gate.";
  names.attention_connection = usual_names(kAttentionConnectionTensors, prefix + "attn_hc.");
  names.feed_forward_connection = usual_names(kFeedForwardConnectionTensors, prefix + "ffn_hc.");
  GatedDeltaNetNames& net = names.delta_net;
  net.conv = prefix + "self_attn.conv1d";
  for (std::string* const separate : {&net.q_conv, &net.k_conv, &net.v_conv}) separate->clear();
  net.decay_down = gate + "f_a_proj";
  net.decay_up = gate + "f_b_proj";
  net.decay = gate + "A_log";
  net.decay_bias = gate + "dt_bias";
  return names;
}

// Layers without KV heads have Kimi delta attention.
nlohmann::json glm5_next_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = deepseek_config(model);
  config.update(numbers_in_gguf(kIndexerNumbers, model));
  config.update(numbers_in_gguf(kHyperConnectionNumbers, model));
  config["swiglu_limits"] = std::vector<double>(model.whole("block_count"));  // if there are none
  config.update(gguf_activation_limits(model));
  std::vector<std::uint64_t> kv_heads = model.wholes("attention.head_count_kv");
  kv_heads.resize(config["num_hidden_layers"], kv_heads.back());
  for (const std::uint64_t heads : kv_heads)
    config["layer_types"].push_back(heads == 0 ? "linear_attention" : "full_attention");
  config.update({{"linear_attn_config",
                  {{"num_heads", model.heads()},
                   {"head_dim", model.whole("kda.head_dim")},
                   {"short_conv_kernel_size", model.whole("ssm.conv_kernel")},
                   {"gate_lower_bound", model.number("kda.gate_lower_bound")}}},
                 {"index_kpool", model.whole("attention.indexer.kpool")},
                 {"hc_eps", model.number("hyper_connection.epsilon")},
                 {"hc_sinkhorn_iters", model.whole("hyper_connection.sinkhorn_iterations")},
                 {"topk_method", "noaux_tc"}});
  return config;
}

}  // namespace

Family glm5_next() {
  Family family = derived(kimi_linear(), "Glm5NextForConditionalGeneration", glm5_next_spec, glm5_next_block);
  family.names.part_prefix = "language_model.";
  family.names.other_names_of_block = glm5_next_modules;
  family.layer_types = {{"deepseek_sparse_attention", "full_attention"}};
  family.fixed_fields = {{"mhc", "true"},
                         {"mla_use_nope", "true"},
                         {"qk_rope_head_dim", "0"},
                         {"index_kpool_compress", "true"},
                         {"index_kpool_always_select_tail", "true"}};
  // Two converters of llama.cpp give the architecture two names.
  family.gguf = {.architecture = "glm5-next", .moe_architecture = "glm5next", .config = glm5_next_in_gguf};
  family.defaults.max_position_embeddings = 1048576;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.experts.n_shared_experts = 1;
  family.defaults.experts.first_k_dense_replace = 3;
  family.defaults.experts.routed_scaling_factor = 2.5;
  family.defaults.experts.swiglu_limit = 10.0;
  family.defaults.delta_net.num_key_heads = 64;
  family.defaults.delta_net.num_value_heads = 64;
  family.defaults.delta_net.decay_floor = -5.0;
  family.defaults.delta_net.first_layer = 0;
  family.defaults.delta_net.full_attention_interval = 4;
  family.defaults.indexer.topk = 2048;
  family.defaults.indexer.n_heads = 32;
  family.defaults.indexer.head_dim = 128;
  family.defaults.indexer.pool = 16;
  family.defaults.hyper_connection.mult = 4;
  family.defaults.hyper_connection.sinkhorn_iters = 20;
  return family;
}

}  // namespace tp::families

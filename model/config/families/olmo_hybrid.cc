// OLMo-Hybrid: gated delta nets in three of four layers, with norms of inputs; OLMo 3's attention in the
// others, with norms of outputs, and without RoPE unless the file has a theta.
#include "model/config/families/common.h"
#include "tp/internal/require.h"

#include <utility>

namespace tp::families {
namespace {

// The original code has its own epsilon in the norm of each head's output.
constexpr float kHeadNormEps = 1e-5F;

// Without a list, every fourth layer has attention.
bool is_recurrent(const CheckpointConfig& config, std::size_t layer) {
  if (config.layer_types.empty()) return (layer + 1) % 4 != 0;
  const std::string& type = config.layer_types[layer];
  require<ConfigError>(
      type == "full_attention" || type == "linear_attention",
      "layer_types must be full_attention or linear_attention for {}, found {}; use a model without such "
      "layers",
      config.architecture, type);
  return type == "linear_attention";
}

ModelSpec olmo_hybrid_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  GatedDeltaNetSpec delta_net = delta_net_of(config);
  delta_net.separate = true;
  delta_net.norm.eps = kHeadNormEps;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    BlockSpec& block = spec.blocks[layer];
    if (is_recurrent(config, layer)) {
      block.attention = delta_net;
      continue;
    }
    block.post_attention_norm = std::exchange(block.input_norm, std::nullopt);
    block.post_feed_forward_norm = std::exchange(block.pre_feed_forward_norm, std::nullopt);
    AttentionSpec& attention = attention_of(block);
    attention.query_key_norm = spec.final_norm;
    attention.norms_whole_projections = true;
    if (!config.has_rope_theta) attention.rope.reset();
  }
  return spec;
}

BlockNames olmo_hybrid_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  const std::string recurrence = prefix + "linear_attn.";
  names.input_norm = prefix + "attention_layer_norm";
  names.pre_feed_forward_norm = prefix + "feedforward_layer_norm";
  names.post_attention_norm = prefix + "post_attention_layernorm";
  names.post_feed_forward_norm = prefix + "post_feedforward_layernorm";
  names.delta_net = separate_delta_net(recurrence);
  names.delta_net.in_proj_a = recurrence + "a_proj";
  names.delta_net.in_proj_z = recurrence + "g_proj";
  return names;
}

}  // namespace

Family olmo_hybrid() {
  Family family = llama_like("OlmoHybridForCausalLM", olmo_hybrid_spec, olmo_hybrid_block);
  family.defaults.rms_norm_eps = 1e-6;
  family.defaults.max_position_embeddings = 65536;
  family.defaults.delta_net = {.num_key_heads = 30,
                               .num_value_heads = 30,
                               .key_head_dim = 96,
                               .value_head_dim = 192,
                               .conv_kernel_dim = 4,
                               .allow_neg_eigval = true};
  return family;
}

}  // namespace tp::families

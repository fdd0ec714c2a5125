// Qwen3-Next: Qwen3 with experts, and a recurrence instead of attention in three of four layers.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

// Whether a layer has full attention. Throws ConfigError for a layer with neither full attention nor a
// recurrence.
bool has_attention(const CheckpointConfig& config, std::size_t layer) {
  if (!config.layer_types.empty()) {
    const std::string& type = config.layer_types[layer];
    require<ConfigError>(type == "full_attention" || type == "linear_attention",
                         "layer_types must be full_attention or linear_attention for {}, found {}; use a "
                         "model without such layers",
                         config.architecture, type);
    return type == "full_attention";
  }
  return config.delta_net.full_attention_interval == 0 ||
         (layer + 1) % config.delta_net.full_attention_interval == 0;
}

}  // namespace

ModelSpec qwen3_next_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  ignore_next_token_layers(config, spec.names);
  const NormSpec norm{.eps = static_cast<float>(config.rms_norm_eps), .gain_offset = 1.0F};
  set_norms(spec, norm);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    BlockSpec& block = spec.blocks[layer];
    if (has_attention(config, layer)) {
      AttentionSpec& attention = attention_of(block);
      attention.query_key_norm = norm;
      attention.output_gate = true;
    } else {
      block.attention = delta_net_of(config);
    }
  }
  if (config.num_experts == 0) return spec;
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.shared_intermediate_size = config.experts.shared_expert_intermediate_size;
  experts.shared_expert_gate = config.experts.shared_expert_intermediate_size != 0;
  set_experts_by_step(config, experts, spec);
  return spec;
}

BlockNames qwen3_next_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.delta_net = usual_names(kDeltaNetTensors, prefix + "linear_attn.");
  names.next_token = usual_names(kNextTokenTensors, prefix);
  return names;
}

namespace {

BlockNames qwen3_next_mtp_block(const std::string& prefix) {
  BlockNames names = qwen3_next_block(prefix);
  names.next_token = {.projection = "mtp.fc",
                      .embedding_norm = "mtp.pre_fc_norm_embedding",
                      .state_norm = "mtp.pre_fc_norm_hidden",
                      .final_norm = "mtp.norm"};
  return names;
}

// The multi-token prediction block has attention and, if the model has experts, experts. Checkpoints store it
// under "mtp.", GGUF files after the model's blocks.
ModelSpec qwen3_next_mtp_spec(const CheckpointConfig& config) {
  CheckpointConfig single = config;
  single.num_hidden_layers = 1;
  single.num_nextn_predict_layers = 0;
  single.layer_types = {"full_attention"};
  single.experts.mlp_only_layers.clear();
  single.experts.decoder_sparse_step = 1;
  ModelSpec spec = qwen3_next_spec(single);
  spec.next_token = NextTokenSpec{.norm = *spec.final_norm};
  if (config.num_nextn_predict_layers != 0) {
    spec.names.stored_blocks = {config.num_hidden_layers};
    return spec;
  }
  spec.names.blocks = "mtp.layers.";
  spec.names.blocks_have_prefix = false;
  spec.names.names_of_block = qwen3_next_mtp_block;
  return spec;
}

}  // namespace

nlohmann::json gated_delta_net_config(const ModelMetadata& model) {
  nlohmann::json config = gguf_next_token_layers(model);
  const char* const recurrent = "attention.recurrent_layers";
  if (model.has(recurrent)) {
    std::vector<bool> layers = model.booleans(recurrent);
    layers.resize(std::min(layers.size(), config["num_hidden_layers"].get<std::size_t>()));
    for (const bool is_recurrent : layers)
      config["layer_types"].push_back(is_recurrent ? "linear_attention" : "full_attention");
  }
  config.update(delta_net_in_gguf(model));
  config["full_attention_interval"] = model.whole_or("full_attention_interval", 4);
  return config;
}

nlohmann::json qwen3_next_config(const ModelMetadata& model) {
  nlohmann::json config = gated_delta_net_config(model);
  config.update({{"num_experts", model.whole("expert_count")},
                 {"num_experts_per_tok", model.whole("expert_used_count")},
                 {"moe_intermediate_size", model.whole("expert_feed_forward_length")},
                 {"shared_expert_intermediate_size", model.whole("expert_shared_feed_forward_length")},
                 {"norm_topk_prob", true}});
  return config;
}

Family qwen3_next() {
  Family family = derived(qwen3_moe(), "Qwen3NextForCausalLM", qwen3_next_spec, qwen3_next_block);
  family.make_next_token_spec = qwen3_next_mtp_spec;
  family.names.ignored_prefixes = {"mtp."};
  family.names.gguf.norm_offset = 1.0F;
  family.names.gguf.block.pre_feed_forward_norm = "post_attention_norm";
  family.names.gguf.block.post_attention_norm.clear();
  family.gguf = {.architecture = "qwen3next", .config = qwen3_next_config};
  family.defaults.head_dim = 256;
  family.defaults.partial_rotary_factor = 0.25;
  family.defaults.num_experts = 512;
  family.defaults.experts.num_experts_per_tok = 10;
  family.defaults.experts.moe_intermediate_size = 512;
  family.defaults.experts.shared_expert_intermediate_size = 512;
  family.defaults.experts.norm_topk_prob = true;
  family.defaults.delta_net.full_attention_interval = 4;
  family.defaults.delta_net.num_key_heads = 16;
  family.defaults.delta_net.num_value_heads = 32;
  family.defaults.delta_net.key_head_dim = 128;
  family.defaults.delta_net.value_head_dim = 128;
  family.defaults.delta_net.conv_kernel_dim = 4;
  return family;
}

}  // namespace tp::families

// Kimi-Linear: DeepSeek-V3 without RoPE, and Kimi delta attention instead of attention in most layers.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

GatedDeltaNetSpec delta_attention(const CheckpointConfig& config) {
  GatedDeltaNetSpec spec = delta_net_of(config);
  spec.gate = Activation::sigmoid;
  spec.separate = spec.element_decays = true;
  spec.gate_rank = config.delta_net.value_head_dim;
  return spec;
}

ModelSpec kimi_linear_spec(const CheckpointConfig& config) {
  ModelSpec spec = deepseek_spec(config);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    AttentionPartSpec& attention = spec.blocks[layer].attention;
    if (config.layer_types.empty() || config.layer_types[layer] == "linear_attention") {
      attention = delta_attention(config);
    } else {
      auto& latent = std::get<LatentAttentionSpec>(attention);
      latent.rope.reset();
      latent.latent_norm_eps = static_cast<float>(config.rms_norm_eps);
    }
  }
  return spec;
}

BlockNames kimi_linear_block(const std::string& prefix) {
  BlockNames names = deepseek_block(prefix);
  const std::string attention = prefix + "self_attn.";
  names.delta_net = separate_delta_net(attention);
  names.delta_net.decay_down = attention + "f_a_proj";
  names.delta_net.decay_up = attention + "f_b_proj";
  names.delta_net.gate_down = attention + "g_a_proj";
  names.delta_net.gate_up = attention + "g_b_proj";
  names.experts = mixtral_block(prefix).experts;
  names.experts.correction_bias = prefix + "block_sparse_moe.gate.e_score_correction_bias";
  names.experts.shared_expert =
      usual_names(kSharedExpertTensors, prefix + "block_sparse_moe.shared_experts.");
  names.next_token = {};
  return names;
}

// Layers without KV heads have Kimi delta attention.
nlohmann::json kimi_linear_config(const ModelMetadata& model) {
  nlohmann::json config = deepseek_config(model);
  nlohmann::json attention = nlohmann::json::array();
  std::size_t layer = 0;
  for (const std::uint64_t heads : model.wholes("attention.head_count_kv")) {
    ++layer;
    if (heads != 0) attention.push_back(layer);
  }
  config.update({{"linear_attn_config",
                  {{"full_attn_layers", attention},
                   {"num_heads", model.heads()},
                   {"head_dim", model.whole("kda.head_dim")},
                   {"short_conv_kernel_size", model.whole("ssm.conv_kernel")}}},
                 {"norm_topk_prob", model.boolean_or("expert_weights_norm", true)},
                 {"topk_method", "noaux_tc"}});
  return config;
}

}  // namespace

Family kimi_linear() {
  Family family = derived(deepseek3(), "KimiLinearForCausalLM", kimi_linear_spec, kimi_linear_block);
  family.make_next_token_spec = nullptr;
  family.fixed_fields.push_back({"mla_use_nope", "true"});
  family.fixed_fields.push_back({"num_nextn_predict_layers", "0"});
  family.fixed_fields.push_back({"linear_attn_config.gate_lower_bound", "null"});
  family.names.gguf.block.delta_net.out_proj = "attn_output";
  family.gguf = {.architecture = "kimi-linear", .config = kimi_linear_config};
  family.defaults.experts.routed_scaling_factor = 1.0;
  family.defaults.delta_net.num_key_heads = 32;
  family.defaults.delta_net.num_value_heads = 32;
  family.defaults.delta_net.key_head_dim = 128;
  family.defaults.delta_net.value_head_dim = 128;
  family.defaults.delta_net.conv_kernel_dim = 4;
  return family;
}

}  // namespace tp::families

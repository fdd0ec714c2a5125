// Kimi-Linear: DeepSeek-V3 without RoPE, and Kimi delta attention instead of attention in most layers.
// Kimi-K3: the same with attention residuals, gates of latent attention's output, limited decays, another
// activation, and experts that read projections of the hidden state.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

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

}  // namespace

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

namespace {

// The latents' norms have their class's epsilon, whatever rms_norm_eps says.
ModelSpec kimi_k3_spec(const CheckpointConfig& config) {
  CheckpointConfig plain = config;
  plain.hidden_act = "silu";  // replaced below
  ModelSpec spec = kimi_linear_spec(plain);
  const Situ situ{static_cast<float>(config.experts.situ_beta),
                  static_cast<float>(config.experts.situ_linear_beta)};
  require<ConfigError>(situ.beta > 0.0F && situ.linear_beta > 0.0F,
                       "activation_situ_beta and activation_situ_linear_beta must be above 0, found {} and "
                       "{}; check config.json",
                       situ.beta, situ.linear_beta);
  const std::size_t size = config.attn_res_block_size;
  NormSpec residual_norm = *spec.final_norm;
  residual_norm.gain = config.attn_res_norms;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    BlockSpec& block = spec.blocks[layer];
    block.depth_attention = DepthAttentionSpec{.sums = (spec.blocks.size() - 1) / size + 1,
                                               .sum = layer / size,
                                               .begins = layer % size == 0,
                                               .norm = residual_norm};
    if (auto* const latent = std::get_if<LatentAttentionSpec>(&block.attention)) {
      latent->latent_norm_eps = LatentAttentionSpec().latent_norm_eps;
      latent->element_gate = true;
    } else {
      std::get<GatedDeltaNetSpec>(block.attention).whole_gate = true;
    }
    if (auto* const experts = std::get_if<MixtureOfExpertsSpec>(&block.feed_forward)) {
      experts->latent_size = config.experts.moe_latent_size;
      experts->latent_norm = spec.final_norm;
      experts->situ = situ;
    } else {
      std::get<GatedMlpSpec>(block.feed_forward).situ = situ;
    }
  }
  return spec;
}

// g_proj is a gate in all layers, in latent attention and in Kimi delta attention.
BlockNames kimi_k3_block(const std::string& prefix) {
  BlockNames names = kimi_linear_block(prefix);
  names.latent_attention.gate = prefix + "self_attn.g_proj";
  names.delta_net.in_proj_z = prefix + "self_attn.g_proj";
  names.delta_net.gate_down.clear();
  names.delta_net.gate_up.clear();
  names.attention_residual = usual_names(kAttentionResidualTensors, prefix);
  names.feed_forward_residual = usual_names(kFeedForwardResidualTensors, prefix);
  const std::string experts = prefix + "block_sparse_moe.routed_expert_";
  names.experts.latent_down = experts + "down_proj";
  names.experts.latent_up = experts + "up_proj";
  names.experts.latent_norm = experts + "norm";
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

nlohmann::json kimi_k3_config(const ModelMetadata& model) {
  nlohmann::json config = kimi_linear_config(model);
  config["linear_attn_config"].update(
      {{"gate_lower_bound", model.number_or("kda.gate_lower_bound", 0.0)}, {"use_full_rank_gate", true}});
  config.update({{"hidden_act", "situ"},
                 {"activation_situ_beta", model.number("activation.situ_beta")},
                 {"activation_situ_linear_beta", model.number("activation.situ_linear_beta")},
                 {"attn_res_block_size", model.whole("attn_res.block_size")},
                 {"attn_res_norms", false},
                 {"routed_expert_hidden_size", model.whole("expert_latent_length")},
                 {"latent_moe_use_norm", true},
                 {"mla_use_output_gate", true}});
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

Family kimi_k3() {
  Family family = derived(kimi_linear(), "KimiK3ForConditionalGeneration", kimi_k3_spec, kimi_k3_block);
  family.names.part_prefix = "language_model.";
  family.names.last_residual = usual_names(kLastResidualTensors, "");
  family.names.gguf.block.delta_net.in_proj_z = "ssm_g";
  family.names.gguf.block.experts.latent_down = "ffn_routed_down";
  family.names.gguf.block.experts.latent_up = "ffn_routed_up";
  // Files have the product of two tensors, for attention residuals.
  family.gguf = {.architecture = "kimi-k3", .config = kimi_k3_config, .read_only = true};
  family.fixed_fields = {
      {"mla_use_nope", "true"},          {"mla_use_output_gate", "true"},
      {"latent_moe_use_norm", "true"},   {"hidden_act", R"("situ")"},
      {"num_nextn_predict_layers", "0"}, {"linear_attn_config.use_full_rank_gate", "true"}};
  family.defaults.attn_res_block_size = 12;
  family.defaults.experts.situ_beta = 4.0;
  family.defaults.experts.situ_linear_beta = 25.0;
  return family;
}

}  // namespace tp::families

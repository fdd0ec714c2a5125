// Ling 2 and Ring 2: DeepSeek-V3's choice of experts with grouped queries, norms of queries and keys, and
// RoPE in half of each head. Ling 3: the same experts with Kimi delta attention, whose decays are limited, in
// most layers, and latent attention with a gate for each head in the others.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

// `use_qkv_bias` is for queries, keys and values, and `use_bias` for attention's output. Weights of several
// experts are normalized, whatever norm_topk_prob says.
ModelSpec ling2_spec(const CheckpointConfig& stored) {
  CheckpointConfig config = stored;
  if (config.experts.num_experts_per_tok > 1) config.experts.norm_topk_prob = true;
  const std::size_t rotated = rotated_elements(config, config.partial_rotary_factor);
  require<ConfigError>(
      config.rotary_dim == 0 || config.rotary_dim == rotated,
      "rotary_dim must be partial_rotary_factor of head_dim, {}, found {}; check config.json", rotated,
      config.rotary_dim);
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).o_bias = config.mlp_bias;
    if (config.use_qk_norm) attention_of(block).query_key_norm = block.input_norm;
    std::get<GatedMlpSpec>(block.feed_forward).bias = false;
  }
  ignore_next_token_layers(config, spec.names);
  set_sigmoid_experts(config, spec);
  return spec;
}

ModelSpec ling2_next_token_spec(const CheckpointConfig& config) {
  return next_token_spec(config, ling2_spec);
}

BlockNames ling2_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.next_token = next_token_with_final_layernorm(prefix);
  const std::string attention = prefix + "attention.";
  set_qkv(names, attention + "query_key_value");
  names.q_norm = attention + "query_layernorm";
  names.k_norm = attention + "key_layernorm";
  names.o_proj = attention + "dense";
  names.experts.correction_bias = prefix + "mlp.gate.expert_bias";
  names.experts.shared_expert = usual_names(kSharedExpertTensors, prefix + "mlp.shared_experts.");
  return names;
}

nlohmann::json ling2_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = sigmoid_experts_in_gguf(model);
  config["use_qk_norm"] = model.has_tensor("blk.0.attn_q_norm.weight");
  config["partial_rotary_factor"] =
      static_cast<double>(model.whole_or("rope.dimension_count", model.head_dim())) /
      static_cast<double>(model.head_dim());
  config["use_bias"] = model.has_tensor("blk.0.attn_output.bias");
  return config;
}

ModelSpec ling3_spec(const CheckpointConfig& config) {
  ModelSpec spec = deepseek_spec(config);
  GatedDeltaNetSpec delta_net = delta_net_of(config);
  delta_net.gate = Activation::sigmoid;
  delta_net.separate = delta_net.element_decays = true;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    AttentionPartSpec& attention = spec.blocks[layer].attention;
    // Layers for multi-token prediction are not listed. They have latent attention.
    if (layer < config.layer_types.size() && config.layer_types[layer] == "linear_attention") {
      attention = delta_net;
    } else {
      auto& latent = std::get<LatentAttentionSpec>(attention);
      latent.latent_norm_eps = static_cast<float>(config.rms_norm_eps);
      latent.head_gate = true;
    }
    auto* const experts = std::get_if<MixtureOfExpertsSpec>(&spec.blocks[layer].feed_forward);
    if (experts == nullptr) continue;
    experts->limit = limit_of(config.experts.swiglu_limits, layer);
    experts->shared_limit = limit_of(config.experts.shared_swiglu_limits, layer);
    if (config.experts.shared_expert_intermediate_size != 0)
      experts->shared_intermediate_size =
          config.experts.n_shared_experts * config.experts.shared_expert_intermediate_size;
  }
  return spec;
}

ModelSpec ling3_next_token_spec(const CheckpointConfig& config) {
  return next_token_spec(config, ling3_spec);
}

BlockNames ling3_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.next_token = next_token_with_final_layernorm(prefix);
  const std::string attention = prefix + "attention.";
  names.q_proj = attention + "q_proj";
  names.k_proj = attention + "k_proj";
  names.v_proj = attention + "v_proj";
  names.o_proj = attention + "dense";
  names.latent_attention = usual_names(kLatentAttentionTensors, attention);
  names.latent_attention.o_proj = attention + "dense";
  names.latent_attention.gate = attention + "g_proj";
  names.delta_net = separate_delta_net(attention);
  names.delta_net.in_proj_a = attention + "f_proj";
  names.delta_net.in_proj_z = attention + "g_proj";
  names.experts.correction_bias = prefix + "mlp.gate.expert_bias";
  names.experts.shared_expert = usual_names(kSharedExpertTensors, prefix + "mlp.shared_experts.");
  return names;
}

// Layers without KV heads have Kimi delta attention.
nlohmann::json ling3_in_gguf(const ModelMetadata& model) {
  require<ConfigError>(model.boolean_or("kda.safe_gate", true),
                       "{}: kda.safe_gate must be true, found false; use the model's original checkpoint",
                       model.files().name());
  nlohmann::json config = deepseek_config(model);
  config.update(gguf_activation_limits(model));
  std::vector<std::uint64_t> kv_heads = model.wholes("attention.head_count_kv");
  kv_heads.resize(config["num_hidden_layers"], kv_heads.back());
  for (const std::uint64_t heads : kv_heads)
    config["layer_types"].push_back(heads == 0 ? "linear_attention" : "full_attention");
  config.update({{"head_dim", model.whole("kda.head_dim")},
                 {"kda_lower_bound", model.number("kda.gate_lower_bound")},
                 {"short_conv_kernel_size", model.whole("ssm.conv_kernel")},
                 {"topk_method", "noaux_tc"}});
  if (model.has("expert_shared_feed_forward_length"))
    config["moe_shared_expert_intermediate_size"] = model.whole("expert_shared_feed_forward_length");
  return config;
}

}  // namespace

Family ling2() {
  Family family{.architecture = "BailingMoeV2ForCausalLM",
                .fixed_fields = {{"score_function", "\"sigmoid\""}, {"use_rmsnorm", "true"}},
                .names = llama_names(),
                .make_spec = ling2_spec,
                .make_next_token_spec = ling2_next_token_spec};
  family.names.embed_tokens = "word_embeddings";
  family.names.names_of_block = ling2_block;
  set_qkv(family.names.gguf.block, "attn_qkv");
  family.gguf = {.architecture = "bailingmoe2", .config = ling2_in_gguf};
  family.defaults.max_position_embeddings = 32768;
  family.defaults.partial_rotary_factor = 0.5;
  family.defaults.use_qk_norm = true;
  return family;
}

Family ling3() {
  Family family = llama_like("BailingMoeV3ForCausalLM", ling3_spec, ling3_block);
  family.fixed_fields = {{"score_function", "\"sigmoid\""},
                         {"kda_safe_gate", "true"},
                         {"no_kda_lora", "true"},
                         {"gated_attention_proj_granularity_type", "\"head_wise\""},
                         {"use_bias", "false"},
                         {"use_qkv_bias", "false"}};
  family.names.embed_tokens = "word_embeddings";
  family.make_next_token_spec = ling3_next_token_spec;
  family.names.gguf.positive_decays = true;
  family.names.gguf.block.delta_net.in_proj_a = "ssm_f_a";
  family.names.gguf.block.delta_net.in_proj_z = "ssm_g_a";
  family.names.gguf.block.delta_net.out_proj = "attn_output";
  family.names.gguf.block.next_token.final_norm = "layer_output_norm";
  family.gguf = {.architecture = "bailingmoe3", .config = ling3_in_gguf};
  family.defaults.max_position_embeddings = 131072;
  family.defaults.delta_net.num_value_heads = 1;
  family.defaults.delta_net.conv_kernel_dim = 4;
  family.defaults.delta_net.decay_floor = -5.0;
  family.defaults.experts.norm_topk_prob = true;
  family.defaults.experts.scoring_func = "sigmoid";
  family.defaults.experts.topk_method = "noaux_tc";
  return family;
}

}  // namespace tp::families

// LFM2: Llama with norms of queries and keys, and short convolutions instead of attention in most layers.
// Also its version with experts.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec lfm2_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  const NormSpec norm{.eps = static_cast<float>(config.layer_norm_eps)};
  set_norms(spec, norm);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    attention_of(spec.blocks[layer]).query_key_norm = norm;
    if (!config.layer_types.empty() && config.layer_types[layer] == "conv")
      spec.blocks[layer].attention = ShortConvolutionSpec{.channels = config.hidden_size,
                                                          .conv_kernel = config.short_convolution.l_cache};
  }
  return spec;
}

ModelSpec lfm2_moe_spec(const CheckpointConfig& config) {
  ModelSpec spec = lfm2_spec(config);
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router.scoring = RouterSpec::Scoring::sigmoid;
  experts.router.correction_bias = true;
  experts.router.scale = static_cast<float>(config.experts.routed_scaling_factor);
  experts.router.added_to_sum = 1e-6F;
  set_experts(config, experts, spec,
              [&](std::size_t layer) { return layer >= config.experts.first_k_dense_replace; });
  return spec;
}

BlockNames lfm2_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "feed_forward.";
  names.input_norm = prefix + "operator_norm";
  names.pre_feed_forward_norm = prefix + "ffn_norm";
  names.q_norm = attention + "q_layernorm";
  names.k_norm = attention + "k_layernorm";
  names.o_proj = attention + "out_proj";
  names.short_convolution = usual_names(kShortConvolutionTensors, prefix + "conv.");
  names.gate_proj = mlp + "w1";
  names.up_proj = mlp + "w3";
  names.down_proj = mlp + "w2";
  names.experts.router = mlp + "gate";
  names.experts.correction_bias = mlp + "expert_bias";
  names.experts.experts = mlp + "experts.";
  names.experts.parts = {"w1", "w3", "w2"};
  return names;
}

// Layers without KV heads have convolutions. The file contains the adjusted width of MLPs.
nlohmann::json lfm2_config(const ModelMetadata& model) {
  nlohmann::json config = {{"norm_eps", model.number("attention.layer_norm_rms_epsilon")},
                           {"conv_L_cache", model.whole("shortconv.l_cache")},
                           {"block_auto_adjust_ff_dim", false}};
  for (const std::uint64_t heads : model.wholes("attention.head_count_kv"))
    config["layer_types"].push_back(heads == 0 ? "conv" : "full_attention");
  return config;
}

nlohmann::json lfm2_moe_config(const ModelMetadata& model) {
  nlohmann::json config = lfm2_config(model);
  config.update({{"num_experts", model.whole("expert_count")},
                 {"num_experts_per_tok", model.whole("expert_used_count")},
                 {"moe_intermediate_size", model.whole("expert_feed_forward_length")},
                 {"num_dense_layers", model.whole_or("leading_dense_block_count", 0)},
                 {"routed_scaling_factor", model.number_or("expert_weights_scale", 1.0)},
                 {"norm_topk_prob", model.boolean_or("expert_weights_norm", true)}});
  return config;
}

}  // namespace

Family lfm2() {
  Family family{.architecture = "Lfm2ForCausalLM",
                .fixed_fields = {{"conv_bias", "false"}},
                .names = llama_names(),
                .make_spec = lfm2_spec};
  family.names.names_of_block = lfm2_block;
  family.names.final_norm = "embedding_norm";
  family.names.gguf.final_norm = "token_embd_norm";
  family.gguf = {.architecture = "lfm2", .config = lfm2_config};
  family.defaults.max_position_embeddings = 128000;
  family.defaults.rope_theta = 1e6;
  family.defaults.tie_word_embeddings = true;
  family.defaults.short_convolution.l_cache = 3;
  family.defaults.short_convolution.auto_adjust_ff_dim = true;
  return family;
}

Family lfm2_moe() {
  Family family = derived(lfm2(), "Lfm2MoeForCausalLM", lfm2_moe_spec);
  family.fixed_fields.push_back({"use_expert_bias", "true"});
  family.gguf = {.architecture = "lfm2moe", .config = lfm2_moe_config};
  family.defaults.short_convolution.auto_adjust_ff_dim = false;
  family.defaults.experts.norm_topk_prob = true;
  family.defaults.num_experts = 32;
  family.defaults.experts.num_experts_per_tok = 4;
  family.defaults.experts.moe_intermediate_size = 1792;
  family.defaults.experts.first_k_dense_replace = 2;
  return family;
}

}  // namespace tp::families

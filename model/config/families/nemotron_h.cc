// Nemotron-H and Nemotron 3: each layer has one part, which is a Mamba-2 mixer, attention without RoPE, an
// MLP or experts. MLPs and experts have no gate.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

MixtureOfExpertsSpec nemotron_h_experts(const CheckpointConfig& config) {
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router = router_with_correction_bias(config);
  experts.activation = activation_of(config);
  experts.gated = false;
  experts.latent_size = config.experts.moe_latent_size;
  experts.shared_intermediate_size = config.experts.shared_expert_intermediate_size;
  require_experts(config, experts);
  return experts;
}

ModelSpec nemotron_h_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  ignore_next_token_layers(config, spec.names);
  set_norms(spec, {.eps = static_cast<float>(config.layer_norm_eps)});
  set_plain_mlps(config, spec);
  for (BlockSpec& block : spec.blocks) attention_of(block).rope.reset();
  set_mixers(config, mamba_of(config, config.layer_norm_eps, true), spec);
  for (std::size_t layer = 0; layer < config.layer_types.size(); ++layer) {
    const std::string& type = config.layer_types[layer];
    BlockSpec& block = spec.blocks[layer];
    if (type == "moe") block.feed_forward = nemotron_h_experts(config);
    if (type == "moe" || type == "mlp") {
      block.input_norm.reset();
      block.attention = NoPartSpec();
    } else {
      block.pre_feed_forward_norm.reset();
      block.feed_forward = NoPartSpec();
    }
  }
  return spec;
}

BlockNames nemotron_h_block(const std::string& prefix) {
  const std::string mixer = prefix + "mixer.";
  BlockNames names;
  names.input_norm = names.pre_feed_forward_norm = prefix + "norm";
  names.q_proj = mixer + "q_proj";
  names.k_proj = mixer + "k_proj";
  names.v_proj = mixer + "v_proj";
  names.o_proj = mixer + "o_proj";
  names.mamba = usual_names(kMambaTensors, mixer);
  names.up_proj = mixer + "up_proj";
  names.down_proj = mixer + "down_proj";
  names.experts.router = mixer + "gate";
  names.experts.correction_bias = mixer + "gate.e_score_correction_bias";
  names.experts.latent_down = mixer + "fc1_latent_proj";
  names.experts.latent_up = mixer + "fc2_latent_proj";
  names.experts.shared_expert.up_proj = mixer + "shared_experts.up_proj";
  names.experts.shared_expert.down_proj = mixer + "shared_experts.down_proj";
  names.experts.experts = mixer + "experts.";
  names.experts.parts.up_proj = "up_proj";
  names.experts.parts.down_proj = "down_proj";
  return names;
}

nlohmann::json nemotron_h_experts_config(const ModelMetadata& model) {
  return {{"n_routed_experts", model.whole("expert_count")},
          {"num_experts_per_tok", model.whole("expert_used_count")},
          {"moe_intermediate_size", model.whole("expert_feed_forward_length")},
          {"moe_shared_expert_intermediate_size", model.whole("expert_shared_feed_forward_length")},
          {"moe_latent_size", model.whole_or("moe_latent_size", 0)},
          {"routed_scaling_factor", model.number_or("expert_weights_scale", 1.0)},
          {"norm_topk_prob", model.boolean_or("expert_weights_norm", true)},
          {"n_group", model.whole_or("expert_group_count", 1)},
          {"topk_group", model.whole_or("expert_group_used_count", 1)},
          {"n_shared_experts", model.whole_or("expert_shared_count", 1)}};
}

// Layers without KV heads and without a feed-forward width have mixers.
nlohmann::json nemotron_h_config(const ModelMetadata& model) {
  nlohmann::json config = gguf_next_token_layers(model);
  config.update(mamba_in_gguf(model));
  config.update({{"layer_norm_epsilon", model.number("attention.layer_norm_rms_epsilon")},
                 {"hidden_act", "relu2"},
                 {"rotary_dim", nullptr}});
  const std::vector<std::uint64_t> kv_heads = model.wholes("attention.head_count_kv");
  const std::vector<std::uint64_t> widths = model.wholes("feed_forward_length");
  const char* const feed_forward = model.has_experts() ? "moe" : "mlp";
  const std::size_t layers =
      std::min({kv_heads.size(), widths.size(), config["num_hidden_layers"].get<std::size_t>()});
  for (std::size_t layer = 0; layer < layers; ++layer)
    config["layers_block_type"].push_back(kv_heads[layer] != 0 ? "attention"
                                          : widths[layer] != 0 ? feed_forward
                                                               : "mamba");
  if (model.has_experts()) config.update(nemotron_h_experts_config(model));
  return config;
}

}  // namespace

Family nemotron_h() {
  Family family{.architecture = "NemotronHForCausalLM",
                .fixed_fields = fixed_mamba_fields(),
                .names = llama_names(),
                .make_spec = nemotron_h_spec};
  family.layer_types = mamba_layer_types();
  family.names.prefix = "backbone.";
  family.names.embed_tokens = "embeddings";
  family.names.final_norm = "norm_f";
  family.names.names_of_block = nemotron_h_block;
  family.names.ignored_prefixes = {"mtp."};
  family.names.gguf.block.pre_feed_forward_norm = "attn_norm";
  family.gguf = {
      .architecture = "nemotron_h", .moe_architecture = "nemotron_h_moe", .config = nemotron_h_config};
  family.defaults.hidden_act = "relu2";
  family.defaults.max_position_embeddings = 4096;
  family.defaults.mamba.n_heads = 128;
  family.defaults.mamba.n_groups = 8;
  family.defaults.mamba.d_conv = 4;
  family.defaults.layer_norm_eps = 1e-5;
  family.defaults.experts.norm_topk_prob = true;
  return family;
}

}  // namespace tp::families

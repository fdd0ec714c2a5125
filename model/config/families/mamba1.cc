// Mamba: one Mamba-1 mixer per layer, without attention and MLPs. Jamba: mixers with three norms in most
// layers, attention without positions in the others, and experts in every other layer.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

// The mixer has no other activation.
const FixedField kSiluGates{"hidden_act", R"("silu")"};

ModelSpec mamba_spec(const CheckpointConfig& config) {
  const Mamba1Spec mixer = mamba1_of(config);
  require<ConfigError>(config.intermediate_size == mixer.channels,
                       "intermediate_size must be expand x hidden_size, {}, for {}, found {}; use a model "
                       "without this variant",
                       mixer.channels, config.architecture, config.intermediate_size);
  return mixers_alone(config, mixer);
}

BlockNames mamba_block(const std::string& prefix) {
  BlockNames names;
  names.input_norm = prefix + "norm";
  names.mamba1 = usual_names(kMamba1Tensors, prefix + "mixer.");
  return names;
}

// Falcon Mamba shares the architecture. Its norms have no gains.
nlohmann::json mamba_config(const ModelMetadata& model) {
  require<ConfigError>(!model.boolean_or("ssm.dt_b_c_rms", false),
                       "{}: ssm.dt_b_c_rms must be false, found true: Falcon Mamba is not supported; use "
                       "another model",
                       model.files().name());
  nlohmann::json config = mamba1_in_gguf(model);
  config.update({{"layer_norm_epsilon", model.number("attention.layer_norm_rms_epsilon")},
                 {"intermediate_size", model.whole("ssm.inner_size")},
                 {"num_attention_heads", 1},
                 {"num_key_value_heads", 1},
                 {"rotary_dim", nullptr}});
  return config;
}

ModelSpec jamba_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  Mamba1Spec mixer = mamba1_of(config);
  mixer.norm = NormSpec{.eps = static_cast<float>(config.rms_norm_eps)};
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    attention_of(spec.blocks[layer]).rope.reset();
    if (config.layer_types[layer] == "mamba") spec.blocks[layer].attention = mixer;
  }
  if (config.num_experts == 0) return spec;
  const std::vector<std::size_t>& listed = config.experts.moe_layers;
  set_experts(config, experts_of(config), spec,
              [&](std::size_t layer) { return std::ranges::find(listed, layer) != listed.end(); });
  return spec;
}

BlockNames jamba_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  const std::string mixer = prefix + "mamba.";
  const std::string mlp = prefix + "feed_forward.";
  names.pre_feed_forward_norm = prefix + "pre_ff_layernorm";
  names.mamba1 = usual_names(kMamba1Tensors, mixer);
  names.mamba1.dt_norm = mixer + "dt_layernorm";
  names.mamba1.b_norm = mixer + "b_layernorm";
  names.mamba1.c_norm = mixer + "c_layernorm";
  names.gate_proj = mlp + "gate_proj";
  names.up_proj = mlp + "up_proj";
  names.down_proj = mlp + "down_proj";
  names.experts.router = mlp + "router";
  names.experts.experts = mlp + "experts.";
  names.experts.parts = usual_names(kOneExpertTensors, "");
  return names;
}

// Layers without KV heads have mixers, and layers with a router have experts.
nlohmann::json jamba_config(const ModelMetadata& model) {
  nlohmann::json config = mamba1_in_gguf(model);
  config["layer_types"] = gguf_mixer_layers(model);
  config["num_experts"] = model.whole_or("expert_count", 0);
  if (!model.has_experts()) return config;
  config["num_experts_per_tok"] = model.whole("expert_used_count");
  config["moe_layers"] = nlohmann::json::array();
  for (std::size_t layer = 0; layer < config["layer_types"].size(); ++layer) {
    if (model.has_tensor(fmt::format("blk.{}.ffn_gate_inp.weight", layer)))
      config["moe_layers"].push_back(layer);
  }
  return config;
}

}  // namespace

Family mamba() {
  Family family = family_of_mixers_alone("MambaForCausalLM", mamba_spec, mamba_block);
  family.fixed_fields.push_back(kSiluGates);
  family.gguf = {.architecture = "mamba", .config = mamba_config};
  family.defaults.num_attention_heads = 1;
  family.defaults.mamba1.d_conv = 4;
  family.defaults.tie_word_embeddings = true;
  return family;
}

Family jamba() {
  Family family = llama_like("JambaForCausalLM", jamba_spec, jamba_block);
  family.fixed_fields = fixed_mamba_fields();
  family.fixed_fields.push_back(kSiluGates);
  family.fixed_fields.push_back({"mamba_inner_layernorms", "true"});
  family.fixed_fields.push_back({"sliding_window", "null"});
  family.layer_types = mamba_layer_types();
  family.names.final_norm = "final_layernorm";
  family.gguf = {.architecture = "jamba", .config = jamba_config};
  family.defaults.max_position_embeddings = 262144;
  family.defaults.mamba1.d_conv = 4;
  family.defaults.mamba1.attn_layer_period = 8;
  family.defaults.mamba1.attn_layer_offset = 4;
  family.defaults.num_experts = 16;
  family.defaults.experts.num_experts_per_tok = 2;
  family.defaults.experts.expert_layer_period = 2;
  family.defaults.experts.expert_layer_offset = 1;
  return family;
}

}  // namespace tp::families

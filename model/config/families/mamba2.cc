// Mamba-2: one mixer per layer, without attention and MLPs. Also the parts that families with mixers share.
#include "model/config/architectures.h"
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {

void set_mixers(const CheckpointConfig& config, const MambaSpec& mixer, ModelSpec& spec) {
  for (std::size_t layer = 0; layer < config.layer_types.size(); ++layer) {
    if (config.layer_types[layer] == "mamba") spec.blocks[layer].attention = mixer;
  }
}

std::vector<std::pair<std::string, std::string>> mamba_layer_types() {
  return {{"linear_attention", "mamba"}};
}

std::vector<FixedField> fixed_mamba_fields() {
  return {{"mamba_conv_bias", "true"},
          {"use_conv_bias", "true"},
          {"mamba_proj_bias", "false"},
          {"use_bias", "false"},
          {"time_step_limit", R"([0.0, "Infinity"])"}};
}

nlohmann::json gguf_mixer_layers(const ModelMetadata& model) {
  nlohmann::json types = nlohmann::json::array();
  for (const std::uint64_t heads : model.wholes("attention.head_count_kv"))
    types.push_back(heads == 0 ? "mamba" : "full_attention");
  return types;
}

ModelSpec mixers_alone(const CheckpointConfig& config, const AttentionPartSpec& mixer) {
  ModelSpec spec = llama_spec(config);
  set_norms(spec, {.eps = static_cast<float>(config.layer_norm_eps)});
  for (BlockSpec& block : spec.blocks) {
    block.attention = mixer;
    block.pre_feed_forward_norm.reset();
    block.feed_forward = NoPartSpec();
  }
  return spec;
}

Family family_of_mixers_alone(const std::string& architecture,
                              ModelSpec (*make_spec)(const CheckpointConfig&),
                              BlockNames (*names_of_block)(const std::string& prefix)) {
  Family family{.architecture = architecture,
                .intermediate_per_hidden = 2,
                .fixed_fields = fixed_mamba_fields(),
                .names = llama_names(),
                .make_spec = make_spec};
  family.fixed_fields.push_back({"rms_norm", "true"});
  family.layer_types = mamba_layer_types();
  family.names.prefix = "backbone.";
  family.names.embed_tokens = "embeddings";
  family.names.final_norm = "norm_f";
  family.names.names_of_block = names_of_block;
  family.defaults.max_position_embeddings = std::size_t{1} << 20;
  family.defaults.layer_norm_eps = 1e-5;
  return family;
}

namespace {

ModelSpec mamba2_spec(const CheckpointConfig& config) {
  return mixers_alone(config, mamba_of(config, config.layer_norm_eps, true));
}

BlockNames mamba2_block(const std::string& prefix) {
  BlockNames names;
  names.input_norm = prefix + "norm";
  names.mamba = usual_names(kMambaTensors, prefix + "mixer.");
  return names;
}

nlohmann::json mamba2_config(const ModelMetadata& model) {
  nlohmann::json config = mamba_in_gguf(model);
  const nlohmann::json heads = config["mamba_n_heads"];
  const nlohmann::json head_dim = config["mamba_d_head"];
  config.update({{"layer_norm_epsilon", model.number("attention.layer_norm_rms_epsilon")},
                 {"num_attention_heads", heads},
                 {"num_key_value_heads", heads},
                 {"head_dim", head_dim},
                 {"rotary_dim", nullptr},
                 {"intermediate_size", nullptr}});
  return config;
}

}  // namespace

Family mamba2() {
  Family family = family_of_mixers_alone("Mamba2ForCausalLM", mamba2_spec, mamba2_block);
  family.gguf = {.architecture = "mamba2", .config = mamba2_config};
  family.defaults.num_attention_heads = 128;
  family.defaults.mamba.n_heads = 128;
  family.defaults.mamba.n_groups = 8;
  family.defaults.mamba.d_conv = 4;
  return family;
}

}  // namespace tp::families

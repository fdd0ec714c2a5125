// Mamba-2: one mixer per layer, without attention and MLPs. Also the parts that families with mixers share.
#include "model/config/architectures.h"
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <nlohmann/json.hpp>

namespace tp::families {

MambaSpec mamba_of(const CheckpointConfig& config, double norm_eps, bool norms_groups) {
  MambaSpec spec{.num_heads = config.mamba_n_heads,
                 .head_dim = config.mamba_d_head,
                 .num_groups = config.mamba_n_groups,
                 .state_size = config.mamba_d_state,
                 .conv_kernel = config.mamba_d_conv,
                 .norm = std::nullopt,
                 .norm_groups = norms_groups ? config.mamba_n_groups : 1,
                 .output_scale = static_cast<float>(config.ssm_out_multiplier)};
  if (config.mamba_rms_norm) spec.norm = NormSpec{.eps = static_cast<float>(norm_eps)};
  spec.scales.fill(static_cast<float>(config.ssm_in_multiplier));
  for (std::size_t i = 0; i < config.ssm_multipliers.size(); ++i)
    spec.scales[i] *= static_cast<float>(config.ssm_multipliers[i]);
  return spec;
}

void set_mixers(const CheckpointConfig& config, const MambaSpec& mixer, ModelSpec& spec) {
  for (std::size_t layer = 0; layer < config.layer_types.size(); ++layer) {
    if (config.layer_types[layer] == "mamba") spec.blocks[layer].attention = mixer;
  }
}

MambaNames mamba_names(const std::string& prefix) {
  return {.in_proj = prefix + "in_proj",
          .conv = prefix + "conv1d",
          .dt_bias = prefix + "dt_bias",
          .decay = prefix + "A_log",
          .direct = prefix + "D",
          .norm = prefix + "norm",
          .out_proj = prefix + "out_proj"};
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

nlohmann::json mamba_config(const ModelMetadata& model) {
  const std::uint64_t heads = model.whole("ssm.time_step_rank");
  const std::uint64_t inner_size = model.whole("ssm.inner_size");
  require<CheckpointError>(
      heads != 0 && inner_size % heads == 0,
      "{}: expected an ssm.inner_size that is a multiple of ssm.time_step_rank, found {} "
      "and {}; convert the model again",
      model.files().name(), inner_size, heads);
  return {{"mamba_n_heads", heads},
          {"mamba_d_head", inner_size / heads},
          {"mamba_n_groups", model.whole("ssm.group_count")},
          {"mamba_d_state", model.whole("ssm.state_size")},
          {"mamba_d_conv", model.whole("ssm.conv_kernel")}};
}

nlohmann::json gguf_mixer_layers(const ModelMetadata& model) {
  nlohmann::json types = nlohmann::json::array();
  for (const std::uint64_t heads : model.wholes("attention.head_count_kv"))
    types.push_back(heads == 0 ? "mamba" : "full_attention");
  return types;
}

namespace {

ModelSpec mamba2_spec(const CheckpointConfig& config) {
  const NormSpec norm{.eps = static_cast<float>(config.layer_norm_eps)};
  ModelSpec spec = llama_spec(config);
  set_norms(spec, norm);
  for (BlockSpec& block : spec.blocks) {
    block.attention = mamba_of(config, config.layer_norm_eps, true);
    block.pre_feed_forward_norm.reset();
    block.feed_forward = NoPartSpec();
  }
  return spec;
}

BlockNames mamba2_block(const std::string& prefix) {
  BlockNames names;
  names.input_norm = prefix + "norm";
  names.mamba = mamba_names(prefix + "mixer.");
  return names;
}

nlohmann::json mamba2_config(const ModelMetadata& model) {
  nlohmann::json config = mamba_config(model);
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
  Family family{.architecture = "Mamba2ForCausalLM",
                .intermediate_per_hidden = 2,
                .fixed_fields = fixed_mamba_fields(),
                .names = llama_names(),
                .make_spec = mamba2_spec};
  family.fixed_fields.push_back({"rms_norm", "true"});
  family.layer_types = mamba_layer_types();
  family.names.prefix = "backbone.";
  family.names.embed_tokens = "embeddings";
  family.names.final_norm = "norm_f";
  family.names.names_of_block = mamba2_block;
  family.gguf = {.architecture = "mamba2", .config = mamba2_config};
  family.defaults.max_position_embeddings = std::size_t{1} << 20;
  family.defaults.num_attention_heads = 128;
  family.defaults.mamba_n_heads = 128;
  family.defaults.mamba_n_groups = 8;
  family.defaults.mamba_d_conv = 4;
  family.defaults.layer_norm_eps = 1e-5;
  return family;
}

}  // namespace tp::families

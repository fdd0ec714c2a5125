// Falcon-H1: Llama with a Mamba-2 mixer beside attention in every layer, and many factors.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

// The factor of attention's input is part of the factors of scores and of the output.
ModelSpec falcon_h1_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  spec.embedding_scale = static_cast<float>(config.embedding_multiplier);
  const double in = config.attention_in_multiplier;
  for (BlockSpec& block : spec.blocks) {
    AttentionSpec& attention = attention_of(block);
    attention.scale *= static_cast<float>(in * in * config.key_multiplier);
    attention.output_scale = static_cast<float>(in * config.attention_out_multiplier);
    block.parallel_mixer = mamba_of(config, config.rms_norm_eps, true);
    if (config.mlp_multipliers.empty()) continue;
    auto& mlp = std::get<GatedMlpSpec>(block.feed_forward);
    mlp.gate_scale = static_cast<float>(config.mlp_multipliers[0]);
    mlp.output_scale = static_cast<float>(config.mlp_multipliers[1]);
  }
  return spec;
}

// A factor of the rows of in_proj that contain z, x, B, C or dt.
std::vector<GgufFactor> projection_factors(const CheckpointConfig& config) {
  const std::size_t inner = config.mamba.inner();
  const std::size_t state = config.mamba.n_groups * config.mamba.d_state;
  std::vector<GgufFactor> factors;
  std::size_t first = 0;
  for (const std::size_t rows : {inner, inner, state, state, config.mamba.n_heads}) {
    const double factor = config.mamba.multipliers.empty() ? 1.0 : config.mamba.multipliers[factors.size()];
    factors.push_back({"ssm_in.weight", factor * config.mamba.in_multiplier, first, rows});
    first += rows;
  }
  return factors;
}

// The matrix of a tied embedding cannot contain two factors.
std::vector<GgufFactor> fold_factors_of_falcon_h1(CheckpointConfig& config) {
  require<ConfigError>(
      !config.tie_word_embeddings || config.embedding_multiplier == config.logit_scale,
      "cannot write a GGUF file of {}: its tied embedding needs an embedding_multiplier equal "
      "to lm_head_multiplier, found {} and {}; use the checkpoint without converting it",
      config.architecture, config.embedding_multiplier, config.logit_scale);
  std::vector<GgufFactor> factors = projection_factors(config);
  const double in = config.attention_in_multiplier;
  factors.push_back({"token_embd.weight", config.embedding_multiplier});
  factors.push_back({"output.weight", config.logit_scale});
  factors.push_back({"attn_q.weight", in});
  factors.push_back({"attn_k.weight", in * config.key_multiplier});
  factors.push_back({"attn_v.weight", in});
  factors.push_back({"attn_output.weight", config.attention_out_multiplier});
  factors.push_back({"ssm_out.weight", config.mamba.out_multiplier});
  if (!config.mlp_multipliers.empty()) {
    factors.push_back({"ffn_gate.weight", config.mlp_multipliers[0]});
    factors.push_back({"ffn_down.weight", config.mlp_multipliers[1]});
  }
  for (double* const factor :
       {&config.embedding_multiplier, &config.logit_scale, &config.attention_in_multiplier,
        &config.attention_out_multiplier, &config.key_multiplier, &config.mamba.in_multiplier,
        &config.mamba.out_multiplier})
    *factor = 1.0;
  config.mamba.multipliers.clear();
  config.mlp_multipliers.clear();
  return factors;
}

nlohmann::json falcon_h1_config(const ModelMetadata& model) {
  nlohmann::json config = mamba_in_gguf(model);
  config.update(
      {{"mamba_rms_norm", model.has_tensor("blk.0.ssm_norm.weight")}, {"mamba_norm_before_gate", false}});
  return config;
}

}  // namespace

Family falcon_h1() {
  Family family = llama_like("FalconH1ForCausalLM", falcon_h1_spec, bamba_block);
  family.fixed_fields = fixed_mamba_fields();
  family.layer_types = {{"hybrid", "full_attention"}};
  for (const char* const bias : {"attention_bias", "mlp_bias", "projectors_bias"})
    family.fixed_fields.push_back({bias, "false"});
  family.names.final_norm = "final_layernorm";
  family.gguf = {
      .architecture = "falcon-h1", .config = falcon_h1_config, .fold_factors = fold_factors_of_falcon_h1};
  family.defaults.max_position_embeddings = 8192;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.mamba.n_heads = 128;
  family.defaults.mamba.d_state = 256;
  family.defaults.mamba.d_conv = 4;
  return family;
}

}  // namespace tp::families

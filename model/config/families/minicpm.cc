// MiniCPM: Llama with factors of the embedding, the outputs of attention and MLP, and the last hidden state.
// MiniCPM 3: the same with DeepSeek's latent attention, whose RoPE rotates halves.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

void set_factors(const CheckpointConfig& config, ModelSpec& spec) {
  spec.embedding_scale = static_cast<float>(config.embedding_multiplier);
  spec.logit_scale = static_cast<float>(1.0 / config.logits_scaling);
  for (BlockSpec& block : spec.blocks) block.residual_scale = static_cast<float>(config.residual_multiplier);
}

ModelSpec minicpm_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  set_factors(config, spec);
  return spec;
}

ModelSpec minicpm3_spec(const CheckpointConfig& config) {
  ModelSpec spec = deepseek_spec(config);
  set_factors(config, spec);
  return spec;
}

nlohmann::json minicpm_config(const ModelMetadata& model) {
  return {{"embedding_multiplier", model.number("embedding_scale")},
          {"residual_multiplier", model.number("residual_scale")},
          {"logits_scaling", model.number("logit_scale")}};
}

// Files of llama.cpp lack the factors, which are these in the only published model.
constexpr double kEmbeddingFactor = 12.0;
double residual_factor(std::uint64_t layers) { return 1.4 / std::sqrt(static_cast<double>(layers)); }
double logits_divisor(std::uint64_t hidden_size) { return static_cast<double>(hidden_size) / 256.0; }

nlohmann::json minicpm3_config(const ModelMetadata& model) {
  const std::uint64_t hidden_size = model.whole("embedding_length");
  nlohmann::json config =
      latent_attention_in_gguf(model, hidden_size / std::max<std::uint64_t>(1, model.heads()));
  config.update({{"embedding_multiplier", model.number_or("embedding_scale", kEmbeddingFactor)},
                 {"residual_multiplier",
                  model.number_or("residual_scale", residual_factor(model.whole("block_count")))},
                 {"logits_scaling", model.number_or("logit_scale", logits_divisor(hidden_size))}});
  return config;
}

// Files contain the quotients of a model's own factors and those that llama.cpp uses. A tied embedding is
// also the LM head, so the final norm takes its factor back.
std::vector<GgufFactor> fold_factors_of_minicpm3(CheckpointConfig& config) {
  const double embedding = config.embedding_multiplier / kEmbeddingFactor;
  const double residual = config.residual_multiplier / residual_factor(config.num_hidden_layers);
  const double logits = logits_divisor(config.hidden_size) / config.logits_scaling;
  config.embedding_multiplier = kEmbeddingFactor;
  config.residual_multiplier = residual_factor(config.num_hidden_layers);
  config.logits_scaling = logits_divisor(config.hidden_size);
  return {{"token_embd.weight", embedding},
          {"attn_output.weight", residual},
          {"ffn_down.weight", residual},
          {"output_norm.weight", config.tie_word_embeddings ? logits / embedding : logits}};
}

}  // namespace

Family minicpm() {
  Family family = llama_like("MiniCPMForCausalLM", minicpm_spec);
  family.fixed_fields = {{"sparse_config", "null"}, {"use_nope", "false"}};
  family.defaults.tie_word_embeddings = true;
  family.names.gguf.interleaved_query_key = true;
  family.gguf = {.architecture = "minicpm", .config = minicpm_config};
  return family;
}

Family minicpm3() {
  Family family = llama_like("MiniCPM3ForCausalLM", minicpm3_spec, deepseek_block);
  family.defaults.tie_word_embeddings = true;
  family.defaults.latent.rope_interleave = false;
  family.names.gguf.whole_kv_b = true;
  family.gguf = {
      .architecture = "minicpm3", .config = minicpm3_config, .fold_factors = fold_factors_of_minicpm3};
  return family;
}

}  // namespace tp::families

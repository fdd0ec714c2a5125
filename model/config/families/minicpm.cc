// MiniCPM: Llama with factors of the embedding, the outputs of attention and MLP, and the last hidden state.
// MiniCPM 3: the same with DeepSeek's latent attention, whose RoPE rotates halves.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

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
  return family;
}

}  // namespace tp::families

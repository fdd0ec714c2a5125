// Cohere's Command R: Llama with layer norms without biases, one norm per block, interleaved RoPE and scaled
// logits. Cohere 2 (Command R7B and A): most layers have a sliding window; the other layers have no RoPE.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec cohere_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  NormSpec norm = layer_norm_of(config);
  norm.bias = false;
  set_norms(spec, norm);
  share_input(spec);
  for (BlockSpec& block : spec.blocks) {
    AttentionSpec& attention = attention_of(block);
    attention.interleaved_rope = true;
    if (!config.use_qk_norm) continue;
    attention.query_key_norm = norm;
    attention.query_key_norm_per_head = true;
  }
  return spec;
}

ModelSpec cohere2_spec(const CheckpointConfig& config) {
  ModelSpec spec = cohere_spec(config);
  set_windows(config, spec, [](std::size_t) { return false; });
  for (BlockSpec& block : spec.blocks) {
    if (!attention_of(block).pattern.window) attention_of(block).rope.reset();
  }
  return spec;
}

nlohmann::json cohere_config(const ModelMetadata& model) {
  return {{"layer_norm_eps", model.number("attention.layer_norm_epsilon")},
          {"logit_scale", model.number("logit_scale")},
          {"use_qk_norm", model.has_tensor("blk.0.attn_q_norm.weight")}};
}

nlohmann::json cohere2_config(const ModelMetadata& model) {
  nlohmann::json config = cohere_config(model);
  config["sliding_window"] = model.whole("attention.sliding_window");
  return config;
}

}  // namespace

Family cohere() {
  Family family = llama_like("CohereForCausalLM", cohere_spec);
  family.defaults.max_position_embeddings = 8192;
  family.defaults.logit_scale = 0.0625;
  family.defaults.tie_word_embeddings = true;
  family.gguf = {.architecture = "command-r", .config = cohere_config};
  return family;
}

Family cohere2() {
  Family family = derived(cohere(), "Cohere2ForCausalLM", cohere2_spec);
  family.fixed_fields = {{"use_qk_norm", "false"},
                         {"use_parallel_block", "true"},
                         {"use_gated_activation", "true"},
                         {"position_embedding_type", "\"rope_gptj\""}};
  family.defaults.sliding_window = 4096;
  family.defaults.sliding_window_pattern = 4;
  family.gguf = {.architecture = "cohere2", .config = cohere2_config};
  return family;
}

}  // namespace tp::families

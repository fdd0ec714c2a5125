// Gemma: Llama with a different activation, gains stored minus 1, and a scaled embedding. Gemma 2 adds norms
// after attention and MLP, softcaps, and a window in every other layer. Gemma 3 replaces softcaps by norms of
// queries and keys, and has a separate RoPE in layers with a window.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec gemma_spec(CheckpointConfig config) {
  // Early config.json files say "gelu", but mean the tanh approximation.
  if (config.hidden_act == "gelu") config.hidden_act = "gelu_pytorch_tanh";
  ModelSpec spec = llama_spec(config);
  spec.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  spec.final_norm->gain_offset = 1.0F;
  for (BlockSpec& block : spec.blocks) {
    block.input_norm = spec.final_norm;
    block.pre_feed_forward_norm = spec.final_norm;
  }
  return spec;
}

std::optional<float> cap_of(double value) {
  return value == 0 ? std::nullopt : std::optional(static_cast<float>(value));
}

// The common parts of Gemma 2 and 3.
ModelSpec post_norm_spec(const CheckpointConfig& config) {
  ModelSpec spec = gemma_spec(config);
  spec.logit_softcap = cap_of(config.final_logit_softcapping);
  for (BlockSpec& block : spec.blocks) {
    block.post_attention_norm = spec.final_norm;
    block.post_feed_forward_norm = spec.final_norm;
    attention_of(block).softcap = cap_of(config.attn_logit_softcapping);
    if (config.query_pre_attn_scalar > 0)
      attention_of(block).scale = static_cast<float>(1.0 / std::sqrt(config.query_pre_attn_scalar));
  }
  return spec;
}

ModelSpec gemma2_spec(const CheckpointConfig& config) {
  ModelSpec spec = post_norm_spec(config);
  set_windows(config, spec, [](std::size_t layer) { return layer % 2 == 0; });
  return spec;
}

ModelSpec gemma3_spec(const CheckpointConfig& config) {
  ModelSpec spec = post_norm_spec(config);
  for (BlockSpec& block : spec.blocks) attention_of(block).query_key_norm = spec.final_norm;
  set_windows(config, spec, [](std::size_t) { return false; });  // layer_types decides
  set_local_rope(config, config.rope_local_base_freq, spec);
  return spec;
}

// In Gemma 2, post_attention_layernorm is the norm after attention.
BlockNames gemma2_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.post_attention_norm = prefix + "post_attention_layernorm";
  names.pre_feed_forward_norm = prefix + "pre_feedforward_layernorm";
  names.post_feed_forward_norm = prefix + "post_feedforward_layernorm";
  return names;
}

nlohmann::json gemma_config(const ModelMetadata&) { return {{"hidden_act", "gelu_pytorch_tanh"}}; }

// The file lacks the divisor of attention scores. It is the square root of head_dim in the released models
// with heads of 256 elements (2B, 9B), and the square root of hidden_size / num_attention_heads in the other
// one (27B).
nlohmann::json gemma2_config(const ModelMetadata& model) {
  nlohmann::json config = gemma_config(model);
  config["query_pre_attn_scalar"] =
      model.head_dim() == 256 ? model.head_dim()
                              : model.whole("embedding_length") / std::max<std::uint64_t>(1, model.heads());
  config["attn_logit_softcapping"] = model.number("attn_logit_softcapping");
  config["final_logit_softcapping"] = model.number("final_logit_softcapping");
  config["sliding_window"] = model.whole("attention.sliding_window");
  return config;
}

// 27B, which has 62 layers, divides scores by the square root of hidden_size / num_attention_heads; other
// models divide by the square root of head_dim. Files may omit values that all models share.
nlohmann::json gemma3_config(const ModelMetadata& model) {
  constexpr std::uint64_t kLayersOf27B = 62;
  nlohmann::json config = gemma_config(model);
  config.update(gguf_windows(model));
  config["query_pre_attn_scalar"] =
      model.whole("block_count") == kLayersOf27B
          ? model.whole("embedding_length") / std::max<std::uint64_t>(1, model.heads())
          : model.head_dim();
  config["final_logit_softcapping"] = model.number_or("final_logit_softcapping", 0.0);
  config["rope_theta"] = model.number_or("rope.freq_base", 1e6);
  config["rope_local_base_freq"] = model.number_or("rope.freq_base_swa", 1e4);
  return config;
}

// EmbeddingGemma: Gemma 3 with bidirectional attention, in windows of sliding_window tokens in total.
ModelSpec embedding_gemma_spec(const CheckpointConfig& config) {
  ModelSpec spec = gemma3_spec(config);
  spec.has_lm_head = false;
  if (!config.use_bidirectional_attention) return spec;
  spec.bidirectional = true;
  for (BlockSpec& block : spec.blocks) {
    AttentionPattern& pattern = attention_of(block).pattern;
    pattern.causal = false;
    if (pattern.window) pattern.window = *pattern.window / 2 + 1;
  }
  return spec;
}

nlohmann::json embedding_gemma_config(const ModelMetadata& model) {
  nlohmann::json config = gemma3_config(model);
  config["use_bidirectional_attention"] = true;
  return config;
}

}  // namespace

Family gemma() {
  Family family{.architecture = "GemmaForCausalLM",
                .names = llama_names(),
                .make_spec = [](const CheckpointConfig& config) { return gemma_spec(config); }};
  family.defaults.hidden_act = "gelu_pytorch_tanh";
  family.defaults.head_dim = 256;
  family.defaults.max_position_embeddings = 8192;
  family.defaults.tie_word_embeddings = true;
  family.names.gguf.norm_offset = 1.0F;
  family.gguf = {.architecture = "gemma", .config = gemma_config};
  return family;
}

Family gemma2() {
  Family family = derived(gemma(), "Gemma2ForCausalLM", gemma2_spec, gemma2_block);
  family.gguf = {.architecture = "gemma2", .config = gemma2_config};
  family.defaults.query_pre_attn_scalar = 256;
  family.defaults.sliding_window = 4096;
  family.defaults.attn_logit_softcapping = 50;
  family.defaults.final_logit_softcapping = 30;
  return family;
}

Family gemma3() {
  Family family = derived(gemma2(), "Gemma3ForCausalLM", gemma3_spec);
  family.gguf = {.architecture = "gemma3", .config = gemma3_config};
  family.defaults.attn_logit_softcapping = 0;
  family.defaults.final_logit_softcapping = 0;
  family.defaults.sliding_window_pattern = 6;
  family.defaults.rope_theta = 1e6;
  family.defaults.rope_local_base_freq = 1e4;
  family.defaults.max_position_embeddings = 131072;
  family.defaults.num_attention_heads = 8;
  family.defaults.num_key_value_heads = 4;
  family.defaults.hidden_size = 2304;
  family.defaults.intermediate_size = 9216;
  family.defaults.num_hidden_layers = 26;
  family.defaults.vocab_size = 262208;
  return family;
}

// The language model of multimodal Gemma 3. Configs on the Hub contain only fields that differ from the
// defaults.
Family gemma3_multimodal() {
  Family family = derived(gemma3(), "Gemma3ForConditionalGeneration");
  family.names.part_prefix = "language_model.";
  family.gguf.is_of = [](const ModelMetadata&) { return false; };  // files are read as Gemma3ForCausalLM
  return family;
}

Family embedding_gemma() {
  Family family = derived(gemma3(), "Gemma3TextModel", embedding_gemma_spec);
  family.kind = ModelKind::encoder;
  family.gguf = {.architecture = "gemma-embedding", .config = embedding_gemma_config, .read_only = true};
  // SentencePipeline reads these layers.
  family.names.gguf.sequence_head = {{"dense_2", "dense_2"}, {"dense_3", "dense_3"}};
  family.names.buffers.insert(family.names.buffers.end(), {"dense_2.weight", "dense_3.weight"});
  return family;
}

}  // namespace tp::families

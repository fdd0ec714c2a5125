// Qwen: Llama with biases of queries, keys and values (Qwen 2) or norms of queries and keys (Qwen 3), with or
// without experts.
#include "model/config/families/encoders.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {

ModelSpec qwen2_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) attention_of(block).qkv_bias = true;
  set_windows(config, spec, [&](std::size_t layer) { return layer >= config.max_window_layers; });
  return spec;
}

ModelSpec qwen3_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) attention_of(block).query_key_norm = block.input_norm;
  set_windows(config, spec, [&](std::size_t layer) { return layer >= config.max_window_layers; });
  return spec;
}

namespace {

ModelSpec qwen2_moe_spec(const CheckpointConfig& config) {
  ModelSpec spec = qwen2_spec(config);
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.shared_intermediate_size = config.experts.shared_expert_intermediate_size;
  experts.shared_expert_gate = true;
  set_experts_by_step(config, experts, spec);
  return spec;
}

ModelSpec qwen3_moe_spec(const CheckpointConfig& config) {
  ModelSpec spec = qwen3_spec(config);
  set_experts_by_step(config, experts_of(config), spec);
  return spec;
}

nlohmann::json qwen3_moe_config(const ModelMetadata& model) {
  return {{"num_experts", model.whole("expert_count")},
          {"num_experts_per_tok", model.whole("expert_used_count")},
          {"moe_intermediate_size", model.whole("expert_feed_forward_length")},
          {"norm_topk_prob", true}};
}

nlohmann::json qwen2_moe_config(const ModelMetadata& model) {
  nlohmann::json config = qwen3_moe_config(model);
  config["shared_expert_intermediate_size"] = model.whole("expert_shared_feed_forward_length");
  config["norm_topk_prob"] = false;
  return config;
}

// A decoder whose last state becomes a score: by a layer of its own, or as the difference of the LM head's
// logits of two answers.
ModelSpec qwen3_classifier_spec(const CheckpointConfig& config) {
  ModelSpec spec = qwen3_spec(config);
  spec.has_lm_head = false;
  PooledLayerSpec scores{.name = "score", .out_features = config.labels.size(), .bias = false};
  if (const std::vector<TokenId>& tokens = config.encoder.classifier_token_ids; !tokens.empty()) {
    scores.out_features = 1;
    scores.tokens = tokens;
    scores.vocab_size = config.encoder.classifier_rows;
    if (scores.vocab_size == 0) {
      scores.name = spec.tied_embeddings ? spec.names.embed_tokens : spec.names.lm_head;
      scores.of_body = spec.tied_embeddings;
      scores.vocab_size = config.vocab_size;
    }
  }
  spec.sequence_head = SequenceHeadSpec{.pooling = Pooling::last, .layers = {scores}};
  return spec;
}

// Source: the model card of Qwen3-Reranker.
constexpr const char* kRerankerPrompt =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
    "Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: "
    "Given a web search query, retrieve relevant passages that answer the query\n<Query>: {query}\n"
    "<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

// llama.cpp's converter copies the LM head's rows of the answers yes and no, in this order, and leaves out an
// LM head that is not tied.
nlohmann::json qwen3_classifier_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = gguf_labels(model);
  const nlohmann::json answers = {{"0", "yes"}, {"1", "no"}};
  if (config.value("num_labels", 0) == 2 || config.value("id2label", nlohmann::json()) == answers) {
    config = {{"id2label", {{"0", "yes"}}}, {"classifier_token_ids", {1, 0}}, {"classifier_rows", 2}};
  }
  constexpr const char* kTemplate = "tokenizer.chat_template.rerank";
  const GgufMetadata& metadata = model.files().metadata();
  if (metadata.has(kTemplate)) config["pair_template"] = metadata.text(kTemplate);
  return config;
}

}  // namespace

Family qwen2() {
  Family family = llama_like("Qwen2ForCausalLM", qwen2_spec);
  family.defaults.max_position_embeddings = 32768;
  family.defaults.sliding_window = 4096;
  family.defaults.use_sliding_window = false;
  family.defaults.max_window_layers = 28;
  family.gguf = {.architecture = "qwen2"};
  return family;
}

Family qwen3() {
  Family family = derived(qwen2(), "Qwen3ForCausalLM", qwen3_spec);
  family.defaults.head_dim = 128;
  family.gguf = {.architecture = "qwen3",
                 .is_of = [](const ModelMetadata& model) { return !is_gguf_reranker(model); }};
  family.reranker = "Qwen3ForSequenceClassification";
  return family;
}

// Qwen3-Reranker: the original checkpoints answer yes or no; converted ones have a layer for the score.
Family qwen3_classifier() {
  Family family = derived(qwen3(), "Qwen3ForSequenceClassification", qwen3_classifier_spec);
  family.kind = ModelKind::classifier;
  family.gguf = gguf_reranker("qwen3", qwen3_classifier_in_gguf);
  family.names.gguf.sequence_head = {{"score", "cls.output"}};
  family.reranker.clear();
  family.has_causal_body = true;
  family.defaults.pair_template = kRerankerPrompt;
  return family;
}

Family qwen2_moe() {
  Family family = derived(qwen2(), "Qwen2MoeForCausalLM", qwen2_moe_spec);
  family.defaults.num_experts = 60;
  family.defaults.experts.num_experts_per_tok = 4;
  family.defaults.experts.moe_intermediate_size = 1408;
  family.defaults.experts.shared_expert_intermediate_size = 5632;
  family.gguf = {.architecture = "qwen2moe", .config = qwen2_moe_config};
  return family;
}

Family qwen3_moe() {
  Family family = derived(qwen2(), "Qwen3MoeForCausalLM", qwen3_moe_spec);
  family.defaults.num_experts = 128;
  family.defaults.experts.num_experts_per_tok = 8;
  family.defaults.experts.moe_intermediate_size = 768;
  family.gguf = {.architecture = "qwen3moe", .config = qwen3_moe_config};
  return family;
}

}  // namespace tp::families

// ModernBERT: an encoder like Llama, with layer norms, without biases, and with windows in most layers.
// Source: Warner et al., Smarter, Better, Faster, Longer, 2024.
#include "model/config/families/encoders.h"
#include "tp/internal/require.h"

namespace tp::families {
namespace {

// Layers 0, n, 2n, ..., or else those of layer_types, attend to all tokens. Other layers attend to half of
// local_attention tokens on each side.
void set_local_layers(const CheckpointConfig& config, ModelSpec& spec) {
  require<ConfigError>(config.encoder.global_attn_every_n_layers >= 1,
                       "global_attn_every_n_layers must be at least 1, found {}; check config.json",
                       config.encoder.global_attn_every_n_layers);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    const bool is_global = config.layer_types.empty() ? layer % config.encoder.global_attn_every_n_layers == 0
                                                      : config.layer_types[layer] == "full_attention";
    if (is_global) continue;
    AttentionSpec& attention = attention_of(spec.blocks[layer]);
    attention.pattern.window = config.sliding_window / 2 + 1;
    attention.rope =
        RopeSpec{.theta = config.rope_local_base_freq, .scaling = {}, .rotary_dim = config.head_dim};
  }
}

NormSpec norm_without_bias(const CheckpointConfig& config) {
  NormSpec norm = layer_norm_of(config);
  norm.bias = false;
  return norm;
}

ModelSpec modernbert_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  const NormSpec norm = norm_without_bias(config);
  set_norms(spec, norm);
  spec.embedding_norm = norm;
  spec.blocks.front().input_norm.reset();
  for (BlockSpec& block : spec.blocks) attention_of(block).pattern.causal = false;
  set_local_layers(config, spec);
  spec.bidirectional = true;
  spec.tied_embeddings = true;
  spec.has_lm_head = false;
  return spec;
}

void set_modernbert_lm_head(CheckpointConfig config, ModelSpec& spec) {
  config.hidden_act = config.encoder.classifier_activation;
  set_masked_lm_head(config, spec);
  spec.head_transform->norm = norm_without_bias(config);
  spec.head_transform->bias = false;
}

void set_modernbert_classifier(const CheckpointConfig& config, ModelSpec& spec) {
  require<ConfigError>(config.encoder.classifier_activation == "gelu",
                       "classifier_activation must be gelu for a classifier, found {}; use a model with it",
                       config.encoder.classifier_activation);
  PooledLayerSpec dense = pooled_layer(config, "head.dense", PooledLayerSpec::Activation::gelu);
  dense.bias = false;
  dense.norm = norm_without_bias(config);
  dense.norm_name = "head.norm";
  set_classifier(config, {dense, pooled_layer(config, "classifier")}, spec);
  spec.sequence_head->pooling = config.encoder.classifier_pooling == "mean" ? Pooling::mean : Pooling::first;
}

BlockNames modernbert_block(const std::string& prefix) {
  BlockNames names;
  names.input_norm = prefix + "attn_norm";
  set_qkv(names, prefix + "attn.Wqkv");
  names.o_proj = prefix + "attn.Wo";
  names.pre_feed_forward_norm = prefix + "mlp_norm";
  names.gate_proj = names.up_proj = prefix + "mlp.Wi";
  names.down_proj = prefix + "mlp.Wo";
  return names;
}

// Files without a window have one kind of layers. The first layer of each period has no window, unlike the
// last one in other families.
nlohmann::json modernbert_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = gguf_encoder(model);
  config["hidden_activation"] = model.text_or("hidden_activation", "gelu");
  config["local_rope_theta"] = model.number_or("rope.freq_base_swa", 10000.0);
  config.update(gguf_windows(model));
  if (config["sliding_window"].is_null()) config["global_attn_every_n_layers"] = 1;
  if (const auto period = config.find("sliding_window_pattern"); period != config.end()) {
    config["global_attn_every_n_layers"] = *period;
    config.erase("sliding_window_pattern");
  }
  return config;
}

// Files may name what precedes the scores' layers, by the numbers of poolings.
nlohmann::json modernbert_reranker_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = modernbert_in_gguf(model);
  constexpr const char* kKey = "classifier.pooling_type";
  constexpr std::uint64_t kMean = 1;
  constexpr std::uint64_t kFirst = 2;
  const std::uint64_t pooling = model.whole_or(kKey, kMean);
  require<ConfigError>(pooling == kMean || pooling == kFirst,
                       "{}: {} must be {} (mean) or {} (cls), found {}; use the model's original checkpoint",
                       model.files().name(), kKey, kMean, kFirst, pooling);
  config["classifier_pooling"] = pooling == kMean ? "mean" : "cls";
  return config;
}

Family modernbert_like() {
  Family family{
      .architecture = {},
      .fixed_fields = {{"norm_bias", "false"}, {"classifier_bias", "false"}, {"decoder_bias", "true"}},
      .make_spec = modernbert_spec};
  family.defaults.hidden_act = "gelu";
  family.defaults.max_position_embeddings = 8192;
  family.defaults.rope_theta = 160000;
  family.defaults.rope_local_base_freq = 10000;
  family.defaults.sliding_window = 128;
  family.defaults.encoder.global_attn_every_n_layers = 3;
  family.defaults.tie_word_embeddings = true;
  family.names = {.prefix = "model.",
                  .embed_tokens = "embeddings.tok_embeddings",
                  .embed_positions = {},
                  .embedding_norm = "embeddings.norm",
                  .final_norm = "final_norm",
                  .lm_head = "decoder",
                  .head_dense = "head.dense",
                  .head_norm = "head.norm",
                  .blocks = "layers.",
                  .names_of_block = modernbert_block};
  family.names.gguf.sequence_head = {
      {"head.dense", "cls"}, {"head.norm", "cls.norm"}, {"classifier", "cls.output"}};
  set_qkv(family.names.gguf.block, "attn_qkv");
  return family;
}

}  // namespace

std::vector<Family> modernbert() {
  const std::string architecture = "modern-bert";
  return encoder_classes(
      modernbert_like(),
      {{ModelKind::encoder, {"ModernBertModel"}, {}, gguf_embedder(architecture, modernbert_in_gguf)},
       {ModelKind::masked_lm, {"ModernBertForMaskedLM"}, set_modernbert_lm_head},
       {ModelKind::classifier,
        {"ModernBertForSequenceClassification"},
        set_modernbert_classifier,
        gguf_reranker(architecture, modernbert_reranker_in_gguf)}});
}

}  // namespace tp::families

#include "model/config/families/encoders.h"

#include "model/config/config.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tp::families {
namespace {

constexpr std::uint64_t kGgufRank = 4;  // a pooling_type
constexpr const char* kGgufScores = "cls.output.weight";

PooledLayerSpec pooler_of(const CheckpointConfig& config, const std::string& name) {
  PooledLayerSpec pooler = pooled_layer(config, name, PooledLayerSpec::Activation::tanh);
  pooler.of_body = true;
  return pooler;
}

}  // namespace

ModelSpec bert_body(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  const NormSpec norm = layer_norm_of(config);
  set_plain_mlps(config, spec);
  for (BlockSpec& block : spec.blocks) {
    block.wiring = BlockSpec::Wiring::post_norm;
    block.input_norm.reset();
    block.pre_feed_forward_norm.reset();
    block.post_attention_norm = block.post_feed_forward_norm = norm;
    attention_of(block).rope.reset();
    attention_of(block).pattern.causal = false;
  }
  spec.embedding_norm = norm;
  spec.learned_positions = config.max_position_embeddings;
  spec.token_types = config.type_vocab_size;
  spec.final_norm.reset();
  spec.bidirectional = true;
  spec.tied_embeddings = true;
  spec.has_lm_head = false;
  return spec;
}

ModelSpec bert_body_with_rope(const CheckpointConfig& config) {
  ModelSpec spec = bert_body(config);
  spec.learned_positions = 0;
  const RopeSpec rope{config.rope_theta, config.rope_scaling, rotary_dim(config)};
  for (BlockSpec& block : spec.blocks) attention_of(block).rope = rope;
  return spec;
}

BlockNames bert_block(const std::string& prefix) {
  const std::string attention = prefix + "attention.";
  BlockNames names;
  names.q_proj = attention + "self.query";
  names.k_proj = attention + "self.key";
  names.v_proj = attention + "self.value";
  names.o_proj = attention + "output.dense";
  names.post_attention_norm = attention + "output.LayerNorm";
  names.up_proj = prefix + "intermediate.dense";
  names.down_proj = prefix + "output.dense";
  names.post_feed_forward_norm = prefix + "output.LayerNorm";
  return names;
}

TensorNames bert_names() {
  return {.prefix = "bert.",
          .embed_tokens = "embeddings.word_embeddings",
          .embed_positions = "embeddings.position_embeddings",
          .token_types = "embeddings.token_type_embeddings",
          .embedding_norm = "embeddings.LayerNorm",
          .final_norm = {},
          .lm_head = "cls.predictions.decoder",
          .lm_head_bias = "cls.predictions",
          .head_dense = "cls.predictions.transform.dense",
          .head_norm = "cls.predictions.transform.LayerNorm",
          .blocks = "encoder.layer.",
          .names_of_block = bert_block,
          .buffers = {"position_ids", "predictions.decoder.bias"}};
}

Family bert_like() {
  Family family{.architecture = {},
                .fixed_fields = {{"position_embedding_type", "\"absolute\""},
                                 {"is_decoder", "false"},
                                 {"add_cross_attention", "false"}},
                .names = bert_names(),
                .make_spec = bert_body};
  family.defaults.hidden_act = "gelu";
  family.defaults.layer_norm_eps = 1e-12;
  family.defaults.attention_bias = true;
  family.defaults.mlp_bias = true;
  family.defaults.tie_word_embeddings = true;
  family.defaults.max_position_embeddings = 512;
  family.defaults.type_vocab_size = 2;
  return family;
}

void begin_positions_behind_padding(const CheckpointConfig& config, ModelSpec& spec) {
  spec.first_learned_position = static_cast<std::size_t>(config.pad_token_id) + 1;
  spec.max_position_embeddings =
      spec.learned_positions - std::min(spec.learned_positions - 1, spec.first_learned_position);
}

Head pooler_head(const std::string& pooler) {
  return [pooler](const CheckpointConfig& config, ModelSpec& spec) {
    spec.sequence_head = SequenceHeadSpec{.layers = {pooler_of(config, pooler)}, .may_be_missing = true};
  };
}

Head pooled_classifier(const std::string& pooler) {
  return [pooler](const CheckpointConfig& config, ModelSpec& spec) {
    set_classifier(config, {pooler_of(config, pooler), pooled_layer(config, "classifier")}, spec);
  };
}

void set_masked_lm_head(const CheckpointConfig& config, ModelSpec& spec) {
  spec.has_lm_head = true;
  spec.lm_head_bias = true;
  spec.head_transform = HeadTransformSpec{
      .size = embedding_size(spec), .activation = activation_of(config), .norm = layer_norm_of(config)};
}

void set_roberta_lm_head(const CheckpointConfig& config, ModelSpec& spec) {
  set_masked_lm_head(config, spec);
  spec.head_transform->activation = Activation::gelu;
}

Head two_layer_classifier(const std::string& dense, PooledLayerSpec::Activation activation,
                          const std::string& scores) {
  return [=](const CheckpointConfig& config, ModelSpec& spec) {
    set_classifier(config, {pooled_layer(config, dense, activation), pooled_layer(config, scores)}, spec);
  };
}

Head roberta_classifier() {
  return two_layer_classifier("classifier.dense", PooledLayerSpec::Activation::tanh, "classifier.out_proj");
}

void set_classifier(const CheckpointConfig& config, std::vector<PooledLayerSpec> layers, ModelSpec& spec) {
  layers.back().out_features = config.labels.size();
  layers.back().activation = PooledLayerSpec::Activation::none;
  spec.sequence_head = SequenceHeadSpec{.layers = std::move(layers)};
}

PooledLayerSpec pooled_layer(const CheckpointConfig& config, const std::string& name,
                             PooledLayerSpec::Activation activation) {
  return {.name = name, .out_features = config.hidden_size, .activation = activation};
}

namespace {

// A matrix of one row may be stored as a vector, as llama-quantize does.
std::uint64_t rows_of(const GgufFiles::Entry& entry) {
  return entry.tensor.shape.size() == 1 ? 1 : entry.tensor.shape.front();
}

}  // namespace

// Older rerankers have no pooling_type.
bool is_gguf_reranker(const ModelMetadata& model) {
  return model.has("pooling_type") ? model.whole("pooling_type") == kGgufRank : model.has_tensor(kGgufScores);
}

nlohmann::json gguf_labels(const ModelMetadata& model) {
  const GgufFiles::Entry* const scores = model.files().find(kGgufScores);
  require<CheckpointError>(scores != nullptr,
                           "{}: pooling_type is {} (rank), expected the tensor {}, found none; use the "
                           "model's original checkpoint",
                           model.files().name(), kGgufRank, kGgufScores);
  constexpr const char* kLabels = "classifier.output_labels";
  if (!model.has(kLabels)) return {{"num_labels", rows_of(*scores)}};
  const std::vector<std::string_view> labels = model.texts(kLabels);
  require<ConfigError>(labels.size() == rows_of(*scores),
                       "{}: {} must have a label for each row of {}, {}, found {}; convert the model again",
                       model.files().name(), kLabels, kGgufScores, rows_of(*scores), labels.size());
  nlohmann::json named = nlohmann::json::object();
  for (std::size_t i = 0; i < labels.size(); ++i) named[std::to_string(i)] = labels[i];
  return {{"id2label", named}};
}

nlohmann::json gguf_encoder(const ModelMetadata& model) {
  const GgufFiles::Entry* const types = model.files().find("token_types.weight");
  nlohmann::json config = {{"layer_norm_eps", model.number_or("attention.layer_norm_epsilon", 1e-12)},
                           {"hidden_act", "gelu"},
                           {"type_vocab_size", types == nullptr ? 0 : rows_of(*types)}};
  if (is_gguf_reranker(model)) config.update(gguf_labels(model));
  return config;
}

BlockNames flash_bert_block(const std::string& prefix, const std::string& attention) {
  BlockNames names;
  set_qkv(names, prefix + attention + ".Wqkv");
  names.o_proj = prefix + attention + ".out_proj";
  names.post_attention_norm = prefix + "norm1";
  names.up_proj = prefix + "mlp.fc1";
  names.down_proj = prefix + "mlp.fc2";
  names.post_feed_forward_norm = prefix + "norm2";
  return names;
}

GgufFamily gguf_embedder(const std::string& architecture,
                         nlohmann::json (*config)(const ModelMetadata& model)) {
  return {.architecture = architecture,
          .is_of = [](const ModelMetadata& model) { return !is_gguf_reranker(model); },
          .config = config,
          .read_only = true};
}

GgufFamily gguf_reranker(const std::string& architecture,
                         nlohmann::json (*config)(const ModelMetadata& model)) {
  GgufFamily family = gguf_embedder(architecture, config);
  family.is_of = is_gguf_reranker;
  return family;
}

void set_gguf_post_norms(BlockNames& names) {
  names.post_attention_norm = "attn_output_norm";
  names.post_feed_forward_norm = "layer_output_norm";
}

std::vector<Family> encoder_classes(const Family& family, const std::vector<EncoderClass>& classes) {
  std::vector<Family> families;
  for (const EncoderClass& each : classes) {
    Family& copy = families.emplace_back(family);
    copy.architecture = each.names.front();
    copy.aliases.assign(each.names.begin() + 1, each.names.end());
    copy.kind = each.kind;
    copy.set_head = each.set_head;
    copy.gguf = each.gguf;
  }
  return families;
}

}  // namespace tp::families

// Parts that encoders share.
#pragma once

#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::families {

// BERT's stack without a head: bidirectional post-norm blocks, learned positions, token types.
ModelSpec bert_body(const CheckpointConfig& config);
// With RoPE instead of learned positions.
ModelSpec bert_body_with_rope(const CheckpointConfig& config);
BlockNames bert_block(const std::string& prefix);
// Names of tensors in BERT's body and heads.
TensorNames bert_names();
// Family::defaults and fixed_fields for BERT and similar encoders.
Family bert_like();

// Numbers positions from the padding token's id plus 1. The position table has as many extra rows.
void begin_positions_behind_padding(const CheckpointConfig& config, ModelSpec& spec);

// Heads that several encoders share. `pooler`: the name of a dense layer over the first token's state.
using Head = decltype(Family::set_head);
// A pooler after the last block, for checkpoints that have one.
Head pooler_head(const std::string& pooler);
// A classifier on the pooler's result.
Head pooled_classifier(const std::string& pooler);
// A dense layer, an activation and a norm before an LM head with a bias, which is tied to the embedding.
void set_masked_lm_head(const CheckpointConfig& config, ModelSpec& spec);
// This head with RoBERTa's activation, even if the blocks use another one.
void set_roberta_lm_head(const CheckpointConfig& config, ModelSpec& spec);
// A classifier of two layers.
Head two_layer_classifier(const std::string& dense, PooledLayerSpec::Activation activation,
                          const std::string& scores);
Head roberta_classifier();

// Adds layers over the first token's state; the last layer computes the labels' scores.
void set_classifier(const CheckpointConfig& config, std::vector<PooledLayerSpec> layers, ModelSpec& spec);

// A layer with hidden_size output features.
PooledLayerSpec pooled_layer(const CheckpointConfig& config, const std::string& name,
                             PooledLayerSpec::Activation activation = PooledLayerSpec::Activation::none);

// The names of RoBERTa's masked LM head.
void set_roberta_head(TensorNames& names);

// A model class: an encoder with a head, or without one.
struct EncoderClass {
  ModelKind kind;
  std::vector<std::string> names;  // in `architectures`; the first is the family's
  Head set_head{};
  GgufFamily gguf{};  // if the class has GGUF files
};

// Names of blocks in the original code of FlashAttention's BERT. `attention`: "attn".
BlockNames flash_bert_block(const std::string& prefix, const std::string& attention);

// An encoder's GGUF files of this general.architecture. `config` makes all fields; it begins with those of
// gguf_encoder.
GgufFamily gguf_embedder(const std::string& architecture,
                         nlohmann::json (*config)(const ModelMetadata& model));
// Files whose sequence head scores pairs of texts.
GgufFamily gguf_reranker(const std::string& architecture,
                         nlohmann::json (*config)(const ModelMetadata& model));
// Whether a GGUF file's layer over pooled states scores texts.
bool is_gguf_reranker(const ModelMetadata& model);
// The labels of such a file, as a field of config.json. Throws CheckpointError or ConfigError.
nlohmann::json gguf_labels(const ModelMetadata& model);
// The fields of config.json that all encoders have. Throws CheckpointError or ConfigError.
nlohmann::json gguf_encoder(const ModelMetadata& model);
// BERT's names of norms in GGUF files, which follow attention and the MLP.
void set_gguf_post_norms(BlockNames& names);

// Copies the family for each of its classes.
std::vector<Family> encoder_classes(const Family& family, const std::vector<EncoderClass>& classes);

}  // namespace tp::families

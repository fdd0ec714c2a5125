// Parts that encoders share.
#pragma once

#include "model/config/families/common.h"

#include <string>
#include <vector>

namespace tp::families {

// BERT's stack without a head: bidirectional post-norm blocks, learned positions, token types.
DecoderSpec bert_body(const ModelConfig& config);
BlockNames bert_block(const std::string& prefix);
// Names of tensors in BERT's body and heads.
TensorNames bert_names();
// Family::defaults and fixed_fields for BERT and similar encoders.
Family bert_like();

// Numbers positions from the padding token's id plus 1. The position table has as many extra rows.
void begin_positions_behind_padding(const ModelConfig& config, DecoderSpec& spec);

// Adds a pooler after the last block, for checkpoints that have one.
void set_pooler(const ModelConfig& config, DecoderSpec& spec, const std::string& name);
// Adds a dense layer, an activation and a norm before an LM head with a bias, which is tied to the embedding.
void set_masked_lm_head(const ModelConfig& config, const NormSpec& norm, DecoderSpec& spec);
// Adds layers over the first token's state; the last layer computes the labels' scores.
void set_classifier(const ModelConfig& config, std::vector<PooledLayerSpec> layers, DecoderSpec& spec);

// A layer with hidden_size output features.
PooledLayerSpec pooled_layer(const ModelConfig& config, const std::string& name,
                             PooledLayerSpec::Activation activation);

// RoBERTa's heads: the names of the masked LM head, and a classifier of two layers.
void set_roberta_head(TensorNames& names);
void set_roberta_classifier(const ModelConfig& config, DecoderSpec& spec);

// Copies the family for another model class of a different kind.
Family model_class(Family family, const std::string& architecture, ModelKind kind,
                   DecoderSpec (*make_spec)(const ModelConfig& config));

}  // namespace tp::families

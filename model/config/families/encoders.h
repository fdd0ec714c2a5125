// What encoders have in common, to start from.
#pragma once

#include "model/config/families/common.h"

#include <string>
#include <vector>

namespace tp::families {

// BERT's stack, without a head: post-norm blocks that see in both directions, learned positions, types.
DecoderSpec bert_body(const ModelConfig& config);
BlockNames bert_block(const std::string& prefix);
// The tensors of BERT's body and of its heads.
TensorNames bert_names();
// Family::defaults and fixed_fields of BERT and those like it.
Family bert_like();

// Positions begin behind the padding token's: the table has as many rows more than a sequence has tokens.
void begin_positions_behind_padding(const ModelConfig& config, DecoderSpec& spec);

// Nothing follows the last block but, where checkpoints have it, this pooler.
void set_pooler(const ModelConfig& config, DecoderSpec& spec, const std::string& name);
// dense, activation and norm in front of an LM head with a bias, which is tied to the embedding.
void set_masked_lm_head(const ModelConfig& config, const NormSpec& norm, DecoderSpec& spec);
// Layers over the first token's state, of which the last one scores labels.
void set_classifier(const ModelConfig& config, std::vector<PooledLayerSpec> layers, DecoderSpec& spec);

// A layer of hidden_size.
PooledLayerSpec pooled_layer(const ModelConfig& config, const std::string& name,
                             PooledLayerSpec::Activation activation);

// RoBERTa's heads: their names, and a classifier of two layers.
void set_roberta_head(TensorNames& names);
void set_roberta_classifier(const ModelConfig& config, DecoderSpec& spec);

// The family as another model class of another kind.
Family model_class(Family family, const std::string& architecture, ModelKind kind,
                   DecoderSpec (*make_spec)(const ModelConfig& config));

}  // namespace tp::families

// RoBERTa: BERT with positions numbered from the padding token's id plus 1, and with different heads.
// XLM-RoBERTa differs only in its vocabulary.
#include "model/config/families/encoders.h"

namespace tp::families {
namespace {

DecoderSpec roberta_body(const ModelConfig& config) {
  DecoderSpec spec = bert_body(config);
  begin_positions_behind_padding(config, spec);
  return spec;
}

DecoderSpec roberta_spec(const ModelConfig& config) {
  DecoderSpec spec = roberta_body(config);
  set_pooler(config, spec, "pooler.dense");
  return spec;
}

// The head always uses this activation, even if the blocks use another one.
DecoderSpec roberta_masked_lm_spec(const ModelConfig& config) {
  DecoderSpec spec = roberta_body(config);
  set_masked_lm_head(config, layer_norm_of(config), spec);
  spec.head_transform->activation = Activation::gelu;
  return spec;
}

DecoderSpec roberta_classifier_spec(const ModelConfig& config) {
  DecoderSpec spec = roberta_body(config);
  set_roberta_classifier(config, spec);
  return spec;
}

Family roberta_like() {
  Family family = bert_like();
  family.names.prefix = "roberta.";
  set_roberta_head(family.names);
  family.defaults.layer_norm_eps = 1e-5;
  family.defaults.max_position_embeddings = 514;
  family.defaults.type_vocab_size = 1;
  family.defaults.pad_token_id = 1;
  return family;
}

}  // namespace

void set_roberta_head(TensorNames& names) {
  names.lm_head = "lm_head.decoder";
  names.lm_head_bias = "lm_head";
  names.head_dense = "lm_head.dense";
  names.head_norm = "lm_head.layer_norm";
  names.buffers = {"position_ids", "lm_head.decoder.bias"};
}

void set_roberta_classifier(const ModelConfig& config, DecoderSpec& spec) {
  set_classifier(config,
                 {pooled_layer(config, "classifier.dense", PooledLayerSpec::Activation::tanh),
                  pooled_layer(config, "classifier.out_proj", PooledLayerSpec::Activation::none)},
                 spec);
}

Family roberta() {
  Family family = model_class(roberta_like(), "RobertaModel", ModelKind::encoder, roberta_spec);
  family.aliases = {"XLMRobertaModel", "CamembertModel"};
  return family;
}

Family roberta_masked_lm() {
  Family family =
      model_class(roberta_like(), "RobertaForMaskedLM", ModelKind::masked_lm, roberta_masked_lm_spec);
  family.aliases = {"XLMRobertaForMaskedLM", "CamembertForMaskedLM"};
  return family;
}

Family roberta_classifier() {
  Family family = model_class(roberta_like(), "RobertaForSequenceClassification", ModelKind::classifier,
                              roberta_classifier_spec);
  family.aliases = {"XLMRobertaForSequenceClassification", "CamembertForSequenceClassification"};
  return family;
}

}  // namespace tp::families

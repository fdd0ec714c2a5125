// BERT, the basis of other encoders. Source: Devlin et al., BERT, 2018.
#include "model/config/families/encoders.h"

namespace tp::families {
namespace {

DecoderSpec bert_spec(const ModelConfig& config) {
  DecoderSpec spec = bert_body(config);
  set_pooler(config, spec, "pooler.dense");
  return spec;
}

DecoderSpec bert_masked_lm_spec(const ModelConfig& config) {
  DecoderSpec spec = bert_body(config);
  set_masked_lm_head(config, layer_norm_of(config), spec);
  return spec;
}

DecoderSpec bert_classifier_spec(const ModelConfig& config) {
  DecoderSpec spec = bert_spec(config);
  const PooledLayerSpec pooler = spec.sequence_head->layers.front();
  set_classifier(config, {pooler, pooled_layer(config, "classifier", PooledLayerSpec::Activation::none)},
                 spec);
  return spec;
}

}  // namespace

Family bert() { return model_class(bert_like(), "BertModel", ModelKind::encoder, bert_spec); }

Family bert_masked_lm() {
  Family family = model_class(bert_like(), "BertForMaskedLM", ModelKind::masked_lm, bert_masked_lm_spec);
  family.aliases = {"BertForPreTraining"};
  return family;
}

Family bert_classifier() {
  return model_class(bert_like(), "BertForSequenceClassification", ModelKind::classifier,
                     bert_classifier_spec);
}

}  // namespace tp::families

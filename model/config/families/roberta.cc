// RoBERTa: BERT with positions numbered from the padding token's id plus 1, and with different heads.
// XLM-RoBERTa differs only in its vocabulary.
#include "model/config/families/encoders.h"

namespace tp::families {
namespace {

ModelSpec roberta_body(const CheckpointConfig& config) {
  ModelSpec spec = bert_body(config);
  begin_positions_behind_padding(config, spec);
  return spec;
}

Family roberta_like() {
  Family family = bert_like();
  family.make_spec = roberta_body;
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

std::vector<Family> roberta() {
  std::vector<Family> families = encoder_classes(
      roberta_like(), {{ModelKind::encoder,
                        {"RobertaModel", "XLMRobertaModel", "CamembertModel"},
                        pooler_head("pooler.dense")},
                       {ModelKind::masked_lm,
                        {"RobertaForMaskedLM", "XLMRobertaForMaskedLM", "CamembertForMaskedLM"},
                        set_roberta_lm_head},
                       {ModelKind::classifier,
                        {"RobertaForSequenceClassification", "XLMRobertaForSequenceClassification",
                         "CamembertForSequenceClassification"},
                        roberta_classifier()}});
  // Jina Embeddings 3 names the class of the body.
  families.front().variants = {{{"position_embedding_type", "\"rotary\""}, "XLMRobertaLoRA"}};
  return families;
}

}  // namespace tp::families

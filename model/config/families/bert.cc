// BERT, the basis of other encoders. Source: Devlin et al., BERT, 2018.
#include "model/config/families/encoders.h"

namespace tp::families {

std::vector<Family> bert() {
  return encoder_classes(
      bert_like(),
      {{ModelKind::encoder, {"BertModel"}, pooler_head("pooler.dense")},
       {ModelKind::masked_lm, {"BertForMaskedLM", "BertForPreTraining"}, set_masked_lm_head},
       {ModelKind::classifier, {"BertForSequenceClassification"}, pooled_classifier("pooler.dense")}});
}

}  // namespace tp::families

// BERT, the basis of other encoders. Source: Devlin et al., BERT, 2018.
#include "model/config/families/encoders.h"

namespace tp::families {
namespace {

// GGUF files of this architecture may also contain RoBERTa, XLM-RoBERTa and DistilBERT. Their differences are
// not in the file: position tables lack the rows before the first position.
Family bert_with_gguf() {
  Family family = bert_like();
  set_gguf_post_norms(family.names.gguf.block);
  family.names.gguf.sequence_head = {{"bert.pooler.dense", "cls"}, {"classifier", "cls.output"}};
  return family;
}

}  // namespace

std::vector<Family> bert() {
  const std::string architecture = "bert";
  return encoder_classes(
      bert_with_gguf(),
      {{ModelKind::encoder,
        {"BertModel"},
        pooler_head("pooler.dense"),
        gguf_embedder(architecture, gguf_encoder)},
       {ModelKind::masked_lm, {"BertForMaskedLM", "BertForPreTraining"}, set_masked_lm_head},
       {ModelKind::classifier,
        {"BertForSequenceClassification"},
        pooled_classifier("pooler.dense"),
        gguf_reranker(architecture, gguf_encoder)}});
}

}  // namespace tp::families

// DistilBERT: BERT with half the layers, without token types and without a pooler. Source: Sanh et al.,
// DistilBERT, 2019.
#include "model/config/families/encoders.h"

namespace tp::families {
namespace {

DecoderSpec distilbert_masked_lm_spec(const ModelConfig& config) {
  DecoderSpec spec = bert_body(config);
  set_masked_lm_head(config, layer_norm_of(config), spec);
  return spec;
}

DecoderSpec distilbert_classifier_spec(const ModelConfig& config) {
  DecoderSpec spec = bert_body(config);
  set_classifier(config,
                 {pooled_layer(config, "pre_classifier", PooledLayerSpec::Activation::relu),
                  pooled_layer(config, "classifier", PooledLayerSpec::Activation::none)},
                 spec);
  return spec;
}

BlockNames distilbert_block(const std::string& prefix) {
  BlockNames names;
  names.q_proj = prefix + "attention.q_lin";
  names.k_proj = prefix + "attention.k_lin";
  names.v_proj = prefix + "attention.v_lin";
  names.o_proj = prefix + "attention.out_lin";
  names.post_attention_norm = prefix + "sa_layer_norm";
  names.up_proj = prefix + "ffn.lin1";
  names.down_proj = prefix + "ffn.lin2";
  names.post_feed_forward_norm = prefix + "output_layer_norm";
  return names;
}

// Checkpoints store positions even if config.json describes them as sinusoids (sinusoidal_pos_embds).
Family distilbert_like() {
  Family family = bert_like();
  family.defaults.type_vocab_size = 0;
  family.names = {.prefix = "distilbert.",
                  .embed_tokens = "embeddings.word_embeddings",
                  .embed_positions = "embeddings.position_embeddings",
                  .embedding_norm = "embeddings.LayerNorm",
                  .final_norm = {},
                  .lm_head = "vocab_projector",
                  .head_dense = "vocab_transform",
                  .head_norm = "vocab_layer_norm",
                  .blocks = "transformer.layer.",
                  .names_of_block = distilbert_block};
  return family;
}

}  // namespace

Family distilbert() {
  return model_class(distilbert_like(), "DistilBertModel", ModelKind::encoder, bert_body);
}

Family distilbert_masked_lm() {
  return model_class(distilbert_like(), "DistilBertForMaskedLM", ModelKind::masked_lm,
                     distilbert_masked_lm_spec);
}

Family distilbert_classifier() {
  return model_class(distilbert_like(), "DistilBertForSequenceClassification", ModelKind::classifier,
                     distilbert_classifier_spec);
}

}  // namespace tp::families

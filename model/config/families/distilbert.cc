// DistilBERT: BERT with half the layers, without token types and without a pooler. Source: Sanh et al.,
// DistilBERT, 2019.
#include "model/config/families/encoders.h"

namespace tp::families {
namespace {

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

std::vector<Family> distilbert() {
  return encoder_classes(
      distilbert_like(),
      {{ModelKind::encoder, {"DistilBertModel"}},
       {ModelKind::masked_lm, {"DistilBertForMaskedLM"}, set_masked_lm_head},
       {ModelKind::classifier,
        {"DistilBertForSequenceClassification"},
        two_layer_classifier("pre_classifier", PooledLayerSpec::Activation::relu, "classifier")}});
}

}  // namespace tp::families

// MPNet: RoBERTa without token types, and with a relative position bias. Source: Song et al., MPNet, 2020.
#include "model/config/families/encoders.h"

namespace tp::families {
namespace {

ModelSpec mpnet_body(const CheckpointConfig& config) {
  ModelSpec spec = bert_body(config);
  begin_positions_behind_padding(config, spec);
  spec.relative_bias = RelativeBiasSpec{.num_buckets = config.encoder.relative_attention_num_buckets,
                                        .max_distance = config.encoder.relative_attention_max_distance,
                                        .num_attention_heads = config.num_attention_heads};
  for (BlockSpec& block : spec.blocks) attention_of(block).relative_bias = true;
  return spec;
}

BlockNames mpnet_block(const std::string& prefix) {
  const std::string attention = prefix + "attention.";
  BlockNames names = bert_block(prefix);
  names.q_proj = attention + "attn.q";
  names.k_proj = attention + "attn.k";
  names.v_proj = attention + "attn.v";
  names.o_proj = attention + "attn.o";
  names.post_attention_norm = attention + "LayerNorm";
  return names;
}

Family mpnet_like() {
  Family family = bert_like();
  family.make_spec = mpnet_body;
  family.defaults.max_position_embeddings = 512;
  family.defaults.type_vocab_size = 0;
  family.defaults.pad_token_id = 1;
  family.defaults.encoder.relative_attention_num_buckets = 32;
  family.names.prefix = "mpnet.";
  family.names.token_types.clear();
  family.names.relative_bias = "encoder.relative_attention_bias";
  family.names.names_of_block = mpnet_block;
  set_roberta_head(family.names);
  return family;
}

}  // namespace

std::vector<Family> mpnet() {
  return encoder_classes(mpnet_like(),
                         {{ModelKind::encoder, {"MPNetModel"}, pooler_head("pooler.dense")},
                          {ModelKind::masked_lm, {"MPNetForMaskedLM"}, set_roberta_lm_head},
                          {ModelKind::classifier, {"MPNetForSequenceClassification"}, roberta_classifier()}});
}

}  // namespace tp::families

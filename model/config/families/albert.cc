// ALBERT: BERT with layers that share weights, and token vectors that are smaller than hidden states. Source:
// Lan et al., ALBERT, 2019.
#include "model/config/families/encoders.h"
#include "tp/internal/require.h"

namespace tp::families {
namespace {

// num_hidden_groups groups of equal size divide the layers.
ModelSpec albert_body(const CheckpointConfig& config) {
  ModelSpec spec = bert_body(config);
  const std::size_t layers = config.num_hidden_layers;
  const std::size_t groups = config.encoder.num_hidden_groups;
  require<ConfigError>(groups >= 1 && groups <= layers,
                       "num_hidden_groups must be 1 to num_hidden_layers, {}, found {}; check config.json",
                       layers, groups);
  for (std::size_t layer = 0; layer < layers; ++layer)
    spec.names.stored_blocks.push_back(layer * groups / layers);
  if (config.embedding_size != config.hidden_size) spec.embedding_size = config.embedding_size;
  return spec;
}

BlockNames albert_block(const std::string& prefix) {
  const std::string layer = prefix + "albert_layers.0.";
  BlockNames names;
  names.q_proj = layer + "attention.query";
  names.k_proj = layer + "attention.key";
  names.v_proj = layer + "attention.value";
  names.o_proj = layer + "attention.dense";
  names.post_attention_norm = layer + "attention.LayerNorm";
  names.up_proj = layer + "ffn";
  names.down_proj = layer + "ffn_output";
  names.post_feed_forward_norm = layer + "full_layer_layer_norm";
  return names;
}

Family albert_like() {
  Family family = bert_like();
  family.make_spec = albert_body;
  family.fixed_fields.push_back({"inner_group_num", "1"});
  family.defaults.hidden_act = "gelu_new";
  family.defaults.embedding_size = 128;
  family.defaults.encoder.num_hidden_groups = 1;
  family.names.prefix = "albert.";
  family.names.embedding_projection = "encoder.embedding_hidden_mapping_in";
  family.names.lm_head = "predictions.decoder";
  family.names.lm_head_bias = "predictions";
  family.names.head_dense = "predictions.dense";
  family.names.head_norm = "predictions.LayerNorm";
  family.names.blocks = "encoder.albert_layer_groups.";
  family.names.names_of_block = albert_block;
  return family;
}

}  // namespace

std::vector<Family> albert() {
  return encoder_classes(
      albert_like(),
      {{ModelKind::encoder, {"AlbertModel"}, pooler_head("pooler")},
       {ModelKind::masked_lm, {"AlbertForMaskedLM", "AlbertForPreTraining"}, set_masked_lm_head},
       {ModelKind::classifier, {"AlbertForSequenceClassification"}, pooled_classifier("pooler")}});
}

}  // namespace tp::families

// Longformer: RoBERTa with windows, and global tokens with separate projections. Source: Beltagy et al.,
// Longformer, 2020.
#include "model/config/families/encoders.h"
#include "tp/internal/require.h"

namespace tp::families {
namespace {

ModelSpec longformer_body(const CheckpointConfig& config) {
  ModelSpec spec = bert_body(config);
  begin_positions_behind_padding(config, spec);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    AttentionSpec& attention = attention_of(spec.blocks[layer]);
    require<ConfigError>(config.encoder.attention_window.size() == spec.blocks.size(),
                         "attention_window must be given for the layers of {}; check config.json",
                         config.architecture);
    attention.pattern.window = config.encoder.attention_window[layer] / 2 + 1;
    if (!config.encoder.attention_dilation.empty())
      attention.pattern.dilation = config.encoder.attention_dilation[layer];
    attention.global_projections = true;
  }
  return spec;
}

BlockNames longformer_block(const std::string& prefix) {
  BlockNames names = bert_block(prefix);
  names.q_global = prefix + "attention.self.query_global";
  names.k_global = prefix + "attention.self.key_global";
  names.v_global = prefix + "attention.self.value_global";
  return names;
}

Family longformer_like() {
  Family family = bert_like();
  family.make_spec = longformer_body;
  family.defaults.max_position_embeddings = 512;
  family.defaults.pad_token_id = 1;
  family.names.prefix = "longformer.";
  family.names.names_of_block = longformer_block;
  set_roberta_head(family.names);
  return family;
}

}  // namespace

std::vector<Family> longformer() {
  return encoder_classes(
      longformer_like(),
      {{ModelKind::encoder, {"LongformerModel"}, pooler_head("pooler.dense")},
       {ModelKind::masked_lm, {"LongformerForMaskedLM"}, set_roberta_lm_head},
       {ModelKind::classifier, {"LongformerForSequenceClassification"}, roberta_classifier()}});
}

}  // namespace tp::families

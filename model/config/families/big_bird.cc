// BigBird: BERT with attention between blocks of tokens. Source: Zaheer et al., Big Bird, 2020.
#include "model/config/families/encoders.h"

namespace tp::families {
namespace {

// Outside training, the original code replaces each random block by the first block, which therefore counts
// repeatedly.
ModelSpec big_bird_body(const CheckpointConfig& config) {
  ModelSpec spec = bert_body(config);
  for (BlockSpec& block : spec.blocks) {
    if (!config.encoder.block_sparse) continue;
    attention_of(block).pattern.block_size = config.encoder.block_size;
    attention_of(block).pattern.block_repeats = config.encoder.num_random_blocks;
  }
  return spec;
}

// Checkpoints of this class may also have a pooler.
void set_big_bird_lm_head(const CheckpointConfig& config, ModelSpec& spec) {
  pooler_head("pooler")(config, spec);
  set_masked_lm_head(config, spec);
}

Family big_bird_like() {
  Family family = bert_like();
  family.make_spec = big_bird_body;
  family.fixed_fields.push_back({"rescale_embeddings", "false"});
  family.fixed_fields.push_back({"use_bias", "true"});
  family.fixed_fields.push_back({"norm_type", "\"layer_norm\""});
  family.defaults.hidden_act = "gelu_new";
  family.defaults.max_position_embeddings = 4096;
  return family;
}

}  // namespace

std::vector<Family> big_bird() {
  return encoder_classes(
      big_bird_like(),
      {{ModelKind::encoder, {"BigBirdModel"}, pooler_head("pooler")},
       {ModelKind::masked_lm, {"BigBirdForMaskedLM", "BigBirdForPreTraining"}, set_big_bird_lm_head},
       {ModelKind::classifier,
        {"BigBirdForSequenceClassification"},
        two_layer_classifier("classifier.dense", PooledLayerSpec::Activation::gelu_tanh,
                             "classifier.out_proj")}});
}

}  // namespace tp::families

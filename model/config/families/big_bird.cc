// BigBird: BERT with attention between blocks of tokens. Source: Zaheer et al., Big Bird, 2020.
#include "model/config/families/encoders.h"

namespace tp::families {
namespace {

// Outside training, the original code replaces each random block by the first block, which therefore counts
// repeatedly.
DecoderSpec big_bird_body(const ModelConfig& config) {
  DecoderSpec spec = bert_body(config);
  for (BlockSpec& block : spec.blocks) {
    if (!config.block_sparse) continue;
    attention_of(block).pattern.block_size = config.block_size;
    attention_of(block).pattern.block_repeats = config.num_random_blocks;
  }
  return spec;
}

DecoderSpec big_bird_spec(const ModelConfig& config) {
  DecoderSpec spec = big_bird_body(config);
  set_pooler(config, spec, "pooler");
  return spec;
}

// Checkpoints of this class may also have a pooler.
DecoderSpec big_bird_masked_lm_spec(const ModelConfig& config) {
  DecoderSpec spec = big_bird_spec(config);
  set_masked_lm_head(config, layer_norm_of(config), spec);
  return spec;
}

DecoderSpec big_bird_classifier_spec(const ModelConfig& config) {
  DecoderSpec spec = big_bird_body(config);
  set_classifier(config,
                 {pooled_layer(config, "classifier.dense", PooledLayerSpec::Activation::gelu_tanh),
                  pooled_layer(config, "classifier.out_proj", PooledLayerSpec::Activation::none)},
                 spec);
  return spec;
}

Family big_bird_like() {
  Family family = bert_like();
  family.fixed_fields.push_back({"rescale_embeddings", "false"});
  family.fixed_fields.push_back({"use_bias", "true"});
  family.fixed_fields.push_back({"norm_type", "\"layer_norm\""});
  family.defaults.hidden_act = "gelu_new";
  family.defaults.max_position_embeddings = 4096;
  return family;
}

}  // namespace

Family big_bird() { return model_class(big_bird_like(), "BigBirdModel", ModelKind::encoder, big_bird_spec); }

Family big_bird_masked_lm() {
  Family family =
      model_class(big_bird_like(), "BigBirdForMaskedLM", ModelKind::masked_lm, big_bird_masked_lm_spec);
  family.aliases = {"BigBirdForPreTraining"};
  return family;
}

Family big_bird_classifier() {
  return model_class(big_bird_like(), "BigBirdForSequenceClassification", ModelKind::classifier,
                     big_bird_classifier_spec);
}

}  // namespace tp::families

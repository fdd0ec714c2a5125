#include "model/config/families/seq2seq.h"

#include <memory>
#include <utility>

namespace tp::families {

CheckpointConfig encoder_config(const CheckpointConfig& config) {
  CheckpointConfig encoder = config;
  encoder.num_hidden_layers = config.seq2seq.encoder_layers;
  encoder.intermediate_size = config.seq2seq.encoder_intermediate_size;
  if (config.seq2seq.encoder_attention_heads == config.num_attention_heads) return encoder;
  encoder.num_attention_heads = encoder.num_key_value_heads = config.seq2seq.encoder_attention_heads;
  encoder.head_dim = config.hidden_size / config.seq2seq.encoder_attention_heads;
  return encoder;
}

void make_encoder(ModelSpec& spec) {
  for (BlockSpec& block : spec.blocks) attention_of(block).pattern.causal = false;
  spec.bidirectional = true;
  spec.has_lm_head = false;
  spec.lm_head_bias = false;
}

void add_encoder(ModelSpec encoder, ModelSpec& spec) {
  for (BlockSpec& block : spec.blocks) {
    block.cross_attention = attention_of(block);
    block.cross_attention->relative_bias = false;
    const bool is_normed_behind = block.wiring == BlockSpec::Wiring::post_norm;
    block.cross_attention_norm = is_normed_behind ? block.post_attention_norm : block.input_norm;
  }
  spec.encoder = std::make_shared<const ModelSpec>(std::move(encoder));
}

Family seq2seq_like() {
  Family family{.architecture = {}, .kind = ModelKind::seq2seq};
  family.defaults.tie_word_embeddings = true;
  return family;
}

}  // namespace tp::families

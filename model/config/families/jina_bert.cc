// Jina Embeddings 2: BERT with ALiBi instead of position vectors, and with gated MLPs. Source: Guenther et
// al., Jina Embeddings 2, 2023.
#include "model/config/families/encoders.h"
#include "tp/internal/require.h"

#include <utility>

namespace tp::families {
namespace {

// Scores decrease with the distance of a key on both sides. The table has a number for each head and
// distance.
void set_symmetric_alibi(const CheckpointConfig& config, ModelSpec& spec) {
  constexpr std::size_t kMax = std::size_t{1} << 20;
  require<ConfigError>(
      config.max_position_embeddings <= kMax,
      "max_position_embeddings must be at most {} with symmetric ALiBi, found {}; check config.json", kMax,
      config.max_position_embeddings);
  spec.relative_bias = RelativeBiasSpec{.max_distance = config.max_position_embeddings,
                                        .num_attention_heads = config.num_attention_heads,
                                        .alibi_slopes = alibi_slopes(config)};
  for (BlockSpec& block : spec.blocks) attention_of(block).relative_bias = true;
}

// Older GGUF files store the halves of gated_layers apart.
BlockNames jina_block(const std::string& prefix) {
  BlockNames names = bert_block(prefix);
  names.gate_up_proj = prefix + "mlp.gated_layers";
  names.gate_proj = prefix + "mlp.gate";
  names.up_proj = prefix + "mlp.up";
  names.down_proj = prefix + "mlp.wo";
  names.post_feed_forward_norm = prefix + "mlp.layernorm";
  return names;
}

// Newer GGUF files store gated_layers as ffn_up.
BlockNames jina_block_in_gguf(const std::string& prefix) {
  BlockNames names = jina_block(prefix);
  names.gate_proj = names.up_proj = std::exchange(names.gate_up_proj, {});
  return names;
}

ModelSpec jina_body(const CheckpointConfig& config) {
  ModelSpec spec = bert_body(config);
  spec.learned_positions = 0;
  set_symmetric_alibi(config, spec);
  for (BlockSpec& block : spec.blocks) {
    block.feed_forward = GatedMlpSpec{.intermediate_size = config.intermediate_size,
                                      .activation = activation_of(config),
                                      .down_bias = true};
  }
  return spec;
}

void adapt_jina_names(const ModelMetadata& model, TensorNames& names) {
  if (!model.has_tensor("blk.0.ffn_gate.weight")) names.names_of_block = jina_block_in_gguf;
}

Family jina_like() {
  Family family = bert_like();
  family.fixed_fields = {{"position_embedding_type", "\"alibi\""},
                         {"feed_forward_type", "\"geglu\""},
                         {"is_decoder", "false"},
                         {"add_cross_attention", "false"}};
  family.make_spec = jina_body;
  family.names.embed_positions = {};
  family.names.names_of_block = jina_block;
  set_gguf_post_norms(family.names.gguf.block);
  family.defaults.max_position_embeddings = 8192;
  return family;
}

}  // namespace

std::vector<Family> jina_bert() {
  GgufFamily gguf = gguf_embedder("jina-bert-v2", gguf_encoder);
  gguf.adapt_names = adapt_jina_names;
  return encoder_classes(
      jina_like(),
      {{ModelKind::encoder, {"JinaBertModel", "JinaBertForMaskedLM"}, pooler_head("pooler.dense"), gguf}});
}

}  // namespace tp::families

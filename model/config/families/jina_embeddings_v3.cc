// Jina Embeddings 3: XLM-RoBERTa with RoPE, and with adapters for tasks. Checkpoints name the class of
// XLM-RoBERTa. Source: Sturua et al., jina-embeddings-v3, 2024.
#include "model/config/families/encoders.h"

namespace tp::families {
namespace {

BlockNames jina_v3_block(const std::string& prefix) { return flash_bert_block(prefix, "mixer"); }

Family jina_v3_like() {
  Family family = bert_like();
  family.fixed_fields = {
      {"position_embedding_type", "\"rotary\""}, {"is_decoder", "false"}, {"add_cross_attention", "false"}};
  family.make_spec = bert_body_with_rope;
  family.names.prefix = "roberta.";
  family.names.embed_positions = {};
  family.names.embedding_norm = "emb_ln";
  family.names.blocks = "encoder.layers.";
  family.names.names_of_block = jina_v3_block;
  family.defaults.layer_norm_eps = 1e-5;
  family.defaults.rope_theta = 10000;
  family.defaults.type_vocab_size = 1;
  family.defaults.max_position_embeddings = 8194;
  return family;
}

}  // namespace

std::vector<Family> jina_embeddings_v3() {
  return encoder_classes(jina_v3_like(),
                         {{ModelKind::encoder, {"XLMRobertaLoRA"}, pooler_head("pooler.dense")}});
}

}  // namespace tp::families

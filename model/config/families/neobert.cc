// NeoBERT: an encoder like Llama, with the queries, keys and values of each head stored together. Source: Le
// Breton et al., NeoBERT: A Next-Generation BERT, 2025.
#include "model/config/families/encoders.h"

namespace tp::families {
namespace {

// The model's code uses two thirds of intermediate_size, rounded up to a multiple of 8.
std::size_t neobert_width(std::size_t intermediate_size) {
  constexpr std::size_t kMultiple = 8;
  return (2 * intermediate_size / 3 + kMultiple - 1) / kMultiple * kMultiple;
}

ModelSpec neobert_body(CheckpointConfig config) {
  config.rms_norm_eps = config.layer_norm_eps;  // norm_eps
  config.intermediate_size = neobert_width(config.intermediate_size);
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).pattern.causal = false;
    attention_of(block).interleaved_rope = true;
  }
  if (config.encoder.max_length != 0) spec.max_position_embeddings = config.encoder.max_length;
  spec.bidirectional = true;
  spec.has_lm_head = false;
  return spec;
}

void set_neobert_lm_head(const CheckpointConfig& /*config*/, ModelSpec& spec) {
  spec.has_lm_head = true;
  spec.lm_head_bias = true;
}

BlockNames neobert_block(const std::string& prefix) {
  BlockNames names;
  names.input_norm = prefix + "attention_norm";
  set_qkv(names, prefix + "qkv");
  names.fused_qkv = BlockNames::FusedQkv::by_kv_head;
  names.o_proj = prefix + "wo";
  names.pre_feed_forward_norm = prefix + "ffn_norm";
  names.gate_proj = names.up_proj = prefix + "ffn.w12";
  names.down_proj = prefix + "ffn.w3";
  return names;
}

Family neobert_like() {
  Family family{.architecture = {},
                .fixed_fields = {{"rope", "true"}, {"rms_norm", "true"}},
                .make_spec = [](const CheckpointConfig& config) { return neobert_body(config); }};
  family.defaults.layer_norm_eps = 1e-6;
  family.defaults.max_position_embeddings = 4096;
  family.names = {.prefix = "model.",
                  .embed_tokens = "encoder",
                  .embed_positions = {},
                  .final_norm = "layer_norm",
                  .lm_head = "decoder",
                  .blocks = "transformer_encoder.",
                  .names_of_block = neobert_block,
                  .buffers = {"freqs_cis"}};
  return family;
}

}  // namespace

std::vector<Family> neobert() {
  return encoder_classes(neobert_like(),
                         {{ModelKind::encoder, {"NeoBERT"}},
                          {ModelKind::masked_lm, {"NeoBERTLMHead"}, set_neobert_lm_head},
                          {ModelKind::classifier,
                           {"NeoBERTForSequenceClassification"},
                           two_layer_classifier("dense", PooledLayerSpec::Activation::tanh, "classifier")}});
}

}  // namespace tp::families

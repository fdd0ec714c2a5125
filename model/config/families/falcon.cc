// Falcon: GPT-NeoX with fewer KV heads and almost no biases. Attention and MLP share a norm or have one each.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {

BlockNames falcon_block(const std::string& prefix) {
  BlockNames names = gpt_neox_block(prefix);
  set_qkv(names, prefix + "self_attention.query_key_value");
  names.o_proj = prefix + "self_attention.dense";
  return names;
}

namespace {

// Whether attention and MLP have separate norms: always in sequential blocks, and by default in the new
// architecture.
bool has_two_norms(const CheckpointConfig& config) {
  if (!config.new_decoder_architecture) return !config.parallel_attn;
  return config.num_ln_in_parallel_attn != 1;
}

BlockNames falcon_block_with_two_norms(const std::string& prefix) {
  BlockNames names = falcon_block(prefix);
  names.input_norm = prefix + "ln_attn";
  names.pre_feed_forward_norm = prefix + "ln_mlp";
  return names;
}

void name_two_norms(TensorNames& names) {
  names.names_of_block = falcon_block_with_two_norms;
  names.gguf.block.input_norm = "attn_norm_2";
  names.gguf.block.pre_feed_forward_norm = "attn_norm";
}

ModelSpec falcon_spec(const CheckpointConfig& config) {
  ModelSpec spec = gpt_neox_spec(config);
  if (config.new_decoder_architecture && has_two_norms(config)) name_two_norms(spec.names);
  for (BlockSpec& block : spec.blocks) {
    const bool parallel = config.parallel_attn || config.new_decoder_architecture;
    block.wiring = parallel ? BlockSpec::Wiring::parallel : BlockSpec::Wiring::sequential;
    if (!has_two_norms(config)) block.pre_feed_forward_norm.reset();
  }
  if (!config.alibi) return spec;
  set_alibi(config, spec);
  // The original code scales scores after adding ALiBi's biases.
  for (BlockSpec& block : spec.blocks) {
    AttentionSpec& attention = attention_of(block);
    for (float& slope : attention.alibi_slopes) slope *= attention.scale;
  }
  return spec;
}

// The newer generation (40B, 180B) has separate norms for attention and MLP.
bool is_new(const ModelMetadata& model) { return model.has_tensor("blk.0.attn_norm_2.weight"); }

nlohmann::json falcon_config(const ModelMetadata& model) {
  nlohmann::json config = {{"layer_norm_eps", model.number("attention.layer_norm_epsilon")},
                           {"new_decoder_architecture", is_new(model)},
                           {"parallel_attn", true},
                           {"hidden_act", "gelu"}};
  if (is_new(model)) config["num_ln_in_parallel_attn"] = 2;
  return config;
}

void adapt_names(const ModelMetadata& model, TensorNames& names) {
  if (is_new(model)) name_two_norms(names);
}

}  // namespace

Family falcon() {
  Family family{.architecture = "FalconForCausalLM", .intermediate_per_hidden = 4, .make_spec = falcon_spec};
  family.defaults.hidden_act = "gelu";
  family.defaults.tie_word_embeddings = true;
  family.names = {.prefix = "transformer.",
                  .embed_tokens = "word_embeddings",
                  .embed_positions = {},
                  .final_norm = "ln_f",
                  .lm_head = "lm_head",
                  .blocks = "h.",
                  .names_of_block = falcon_block};
  set_qkv(family.names.gguf.block, "attn_qkv");
  family.gguf = {.architecture = "falcon", .config = falcon_config, .adapt_names = adapt_names};
  return family;
}

}  // namespace tp::families

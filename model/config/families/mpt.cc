// MPT: BLOOM without biases (also in layer norms) and without an embedding norm. May clip queries, keys and
// values. As in Hugging Face's code, MLPs are four times as wide as the hidden state, and expansion_ratio is
// ignored.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec mpt_spec(const CheckpointConfig& config) {
  ModelSpec spec = gpt_neox_spec(config);
  set_alibi(config, spec);
  NormSpec norm = *spec.final_norm;
  norm.bias = false;
  set_norms(spec, norm);
  return spec;
}

BlockNames mpt_block(const std::string& prefix) {
  BlockNames names;
  names.input_norm = prefix + "norm_1";
  set_qkv(names, prefix + "attn.Wqkv");
  names.o_proj = prefix + "attn.out_proj";
  names.pre_feed_forward_norm = prefix + "norm_2";
  names.up_proj = prefix + "ffn.up_proj";
  names.down_proj = prefix + "ffn.down_proj";
  return names;
}

nlohmann::json mpt_config(const ModelMetadata& model) {
  return {{"layer_norm_eps", model.number("attention.layer_norm_epsilon")},
          {"clip_qkv", model.number_or("attention.clamp_kqv", 0.0)},
          {"alibi_bias_max", model.number("attention.max_alibi_bias")},
          {"hidden_act", "gelu"}};
}

}  // namespace

Family mpt() {
  Family family{.architecture = "MptForCausalLM",
                .intermediate_per_hidden = 4,
                .fixed_fields = {{"no_bias", "true"},
                                 {"logit_scale", "null"},
                                 {"attn_config.alibi", "true"},
                                 {"attn_config.attn_type", "\"multihead_attention\""},
                                 {"attn_config.prefix_lm", "false"},
                                 {"attn_config.qk_ln", "false"},
                                 {"attn_config.softmax_scale", "null"}},
                .make_spec = mpt_spec};
  family.defaults.hidden_act = "gelu";
  family.defaults.use_parallel_residual = false;
  family.defaults.tie_word_embeddings = true;
  family.names = {.prefix = "transformer.",
                  .embed_tokens = "wte",
                  .embed_positions = {},
                  .final_norm = "norm_f",
                  .lm_head = "lm_head",
                  .blocks = "blocks.",
                  .names_of_block = mpt_block};
  set_qkv(family.names.gguf.block, "attn_qkv");
  family.gguf = {.architecture = "mpt", .config = mpt_config};
  return family;
}

}  // namespace tp::families

// GPT-NeoX: Llama with layer norms, a plain MLP, biases, and parallel blocks.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

nlohmann::json gpt_neox_config(const ModelMetadata& model) {
  return {{"layer_norm_eps", model.number("attention.layer_norm_epsilon")},
          {"use_parallel_residual", model.boolean_or("use_parallel_residual", true)},
          {"hidden_act", "gelu"}};
}

}  // namespace

ModelSpec gpt_neox_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  set_norms(spec, layer_norm_of(config));
  set_plain_mlps(config, spec);
  if (!config.use_parallel_residual) return spec;
  for (BlockSpec& block : spec.blocks) block.wiring = BlockSpec::Wiring::parallel;
  return spec;
}

BlockNames gpt_neox_block(const std::string& prefix) {
  BlockNames names;
  names.input_norm = prefix + "input_layernorm";
  set_qkv(names, prefix + "attention.query_key_value");
  names.fused_qkv = BlockNames::FusedQkv::by_kv_head;
  names.o_proj = prefix + "attention.dense";
  names.pre_feed_forward_norm = prefix + "post_attention_layernorm";
  names.up_proj = prefix + "mlp.dense_h_to_4h";
  names.down_proj = prefix + "mlp.dense_4h_to_h";
  return names;
}

Family gpt_neox() {
  Family family{.architecture = "GPTNeoXForCausalLM", .make_spec = gpt_neox_spec};
  family.defaults.hidden_act = "gelu";
  family.defaults.partial_rotary_factor = 0.25;
  family.defaults.attention_bias = true;
  family.defaults.mlp_bias = true;
  family.names = {.prefix = "gpt_neox.",
                  .embed_tokens = "embed_in",
                  .embed_positions = {},
                  .final_norm = "final_layer_norm",
                  .lm_head = "embed_out",
                  .blocks = "layers.",
                  .names_of_block = gpt_neox_block,
                  .buffers = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"}};
  set_qkv(family.names.gguf.block, "attn_qkv");
  family.gguf = {.architecture = "gptneox", .config = gpt_neox_config};
  return family;
}

}  // namespace tp::families

#include "model/weights/tensor_names.h"

#include "model/weights/checkpoint/weight_source.h"

#include <fmt/format.h>

namespace tp {
namespace {

GatedMlpNames gated_mlp(const std::string& prefix) {
  return {prefix + "gate_proj", prefix + "up_proj", prefix + "down_proj"};
}

ExpertNames llama_experts(const std::string& prefix) {
  return {.router = prefix + "gate",
          .correction_bias = prefix + "gate.e_score_correction_bias",
          .shared_expert = gated_mlp(prefix + "shared_expert."),
          .shared_expert_gate = prefix + "shared_expert_gate",
          .experts = prefix + "experts.",
          .parts = gated_mlp("")};
}

BlockNames llama_block(const std::string& prefix) {
  return {.input_norm = prefix + "input_layernorm",
          .q_proj = prefix + "self_attn.q_proj",
          .k_proj = prefix + "self_attn.k_proj",
          .v_proj = prefix + "self_attn.v_proj",
          .q_norm = prefix + "self_attn.q_norm",
          .k_norm = prefix + "self_attn.k_norm",
          .o_proj = prefix + "self_attn.o_proj",
          .post_attention_norm = {},
          .pre_feed_forward_norm = prefix + "post_attention_layernorm",
          .gate_proj = prefix + "mlp.gate_proj",
          .up_proj = prefix + "mlp.up_proj",
          .down_proj = prefix + "mlp.down_proj",
          .post_feed_forward_norm = {},
          .experts = llama_experts(prefix + "mlp.")};
}

BlockNames mixtral_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.experts = llama_experts(prefix + "block_sparse_moe.");
  names.experts.parts = {"w1", "w3", "w2"};
  return names;
}

BlockNames deepseek_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  const std::string attention = prefix + "self_attn.";
  names.latent_attention = {.q_proj = attention + "q_proj",
                            .q_a_proj = attention + "q_a_proj",
                            .q_a_norm = attention + "q_a_layernorm",
                            .q_b_proj = attention + "q_b_proj",
                            .kv_a_proj = attention + "kv_a_proj_with_mqa",
                            .kv_a_norm = attention + "kv_a_layernorm",
                            .kv_b_proj = attention + "kv_b_proj",
                            .o_proj = attention + "o_proj"};
  names.experts.shared_expert = gated_mlp(prefix + "mlp.shared_experts.");
  return names;
}

// Here post_attention_layernorm is what it says.
BlockNames gemma2_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.post_attention_norm = prefix + "post_attention_layernorm";
  names.pre_feed_forward_norm = prefix + "pre_feedforward_layernorm";
  names.post_feed_forward_norm = prefix + "post_feedforward_layernorm";
  return names;
}

void set_qkv(BlockNames& names, const std::string& name) {
  names.q_proj = names.k_proj = names.v_proj = name;
}

BlockNames phi3_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  set_qkv(names, prefix + "self_attn.qkv_proj");
  names.gate_proj = names.up_proj = prefix + "mlp.gate_up_proj";
  return names;
}

BlockNames gpt2_block(const std::string& prefix) {
  BlockNames names;
  names.input_norm = prefix + "ln_1";
  set_qkv(names, prefix + "attn.c_attn");
  names.o_proj = prefix + "attn.c_proj";
  names.pre_feed_forward_norm = prefix + "ln_2";
  names.up_proj = prefix + "mlp.c_fc";
  names.down_proj = prefix + "mlp.c_proj";
  names.transposed = true;
  return names;
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

BlockNames falcon_block(const std::string& prefix) {
  BlockNames names = gpt_neox_block(prefix);
  set_qkv(names, prefix + "self_attention.query_key_value");
  names.o_proj = prefix + "self_attention.dense";
  return names;
}

BlockNames falcon_block_with_two_norms(const std::string& prefix) {
  BlockNames names = falcon_block(prefix);
  names.input_norm = prefix + "ln_attn";
  names.pre_feed_forward_norm = prefix + "ln_mlp";
  return names;
}

}  // namespace

GatedMlpNames ExpertNames::expert(std::size_t index) const {
  const std::string prefix = fmt::format("{}{}.", experts, index);
  return {prefix + parts.gate_proj, prefix + parts.up_proj, prefix + parts.down_proj};
}

TensorNames TensorNames::as_stored_in(const WeightSource& source) const {
  const auto has = [&](const std::string& layer) { return source.contains(tensor_names::weight_of(layer)); };
  const auto lacks_prefix = [&](const std::string& layer) { return has(layer) && !has(prefix + layer); };
  TensorNames names = *this;
  names.prefix.clear();
  // Tied embeddings may be stored as the LM head, which never has the prefix.
  if (lacks_prefix(embed_tokens) || lacks_prefix(final_norm)) return names;
  for (std::string* name : {&names.embed_tokens, &names.embed_positions, &names.final_norm, &names.blocks})
    *name = prefix + *name;
  return names;
}

namespace tensor_names {

TensorNames llama() {
  return {.prefix = "model.",
          .embed_tokens = "embed_tokens",
          .embed_positions = {},
          .final_norm = "norm",
          .lm_head = "lm_head",
          .blocks = "layers.",
          .names_of_block = llama_block};
}

TensorNames mixtral() {
  TensorNames names = llama();
  names.names_of_block = mixtral_block;
  return names;
}

TensorNames deepseek() {
  TensorNames names = llama();
  names.names_of_block = deepseek_block;
  // What F8 elements are multiplied by; it belongs to their tensors.
  names.buffers.emplace_back(".weight_scale_inv");
  return names;
}

TensorNames gemma2() {
  TensorNames names = llama();
  names.names_of_block = gemma2_block;
  return names;
}

TensorNames phi3() {
  TensorNames names = llama();
  names.names_of_block = phi3_block;
  return names;
}

TensorNames gpt2() {
  return {.prefix = "transformer.",
          .embed_tokens = "wte",
          .embed_positions = "wpe",
          .final_norm = "ln_f",
          .lm_head = "lm_head",
          .blocks = "h.",
          .names_of_block = gpt2_block,
          .buffers = {".attn.bias", ".attn.masked_bias"}};
}

TensorNames gpt_neox() {
  return {.prefix = "gpt_neox.",
          .embed_tokens = "embed_in",
          .embed_positions = {},
          .final_norm = "final_layer_norm",
          .lm_head = "embed_out",
          .blocks = "layers.",
          .names_of_block = gpt_neox_block,
          .buffers = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"}};
}

TensorNames falcon() {
  return {.prefix = "transformer.",
          .embed_tokens = "word_embeddings",
          .embed_positions = {},
          .final_norm = "ln_f",
          .lm_head = "lm_head",
          .blocks = "h.",
          .names_of_block = falcon_block};
}

TensorNames falcon_with_two_norms() {
  TensorNames names = falcon();
  names.names_of_block = falcon_block_with_two_norms;
  return names;
}

std::string weight_of(const std::string& layer) { return layer + ".weight"; }
std::string bias_of(const std::string& layer) { return layer + ".bias"; }

}  // namespace tensor_names
}  // namespace tp

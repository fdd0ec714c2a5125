#include "model/weights/tensor_names.h"

#include "model/weights/checkpoint/weight_source.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp {

GatedMlpNames ExpertNames::expert(std::size_t index) const {
  const std::string prefix = fmt::format("{}{}.", experts, index);
  return {prefix + parts.gate_proj, prefix + parts.up_proj, prefix + parts.down_proj};
}

TensorNames TensorNames::as_stored_in(const WeightSource& source) const {
  const auto has = [&](const std::string& layer) { return source.contains(tensor_names::weight_of(layer)); };
  struct Prefixes {
    std::string body;
    std::string head;
  };
  std::vector<Prefixes> all = {{part_prefix + prefix, part_prefix}};
  if (!part_prefix.empty()) {
    all.push_back({"model." + part_prefix, ""});
    all.push_back({prefix, ""});
  }
  all.push_back({"", ""});
  // Tied embeddings may be stored as the LM head, but the norm has its name.
  const auto found = std::ranges::find_if(all, [&](const Prefixes& prefixes) {
    return has(prefixes.body + embed_tokens) || has(prefixes.body + final_norm);
  });
  const Prefixes& used = found == all.end() ? all.front() : *found;
  TensorNames names = *this;
  names.prefix.clear();
  names.part_prefix.clear();
  for (std::string* name : {&names.embed_tokens, &names.embed_positions, &names.embedding_norm,
                            &names.final_norm, &names.blocks}) {
    if (!name->empty()) *name = used.body + *name;
  }
  names.lm_head = used.head + lm_head;
  return names;
}

BlockNames gguf_block() {
  return {.input_norm = "attn_norm",
          .q_proj = "attn_q",
          .k_proj = "attn_k",
          .v_proj = "attn_v",
          .q_norm = "attn_q_norm",
          .k_norm = "attn_k_norm",
          .sinks = "attn_sinks.weight",
          .o_proj = "attn_output",
          .post_attention_norm = "post_attention_norm",
          .pre_feed_forward_norm = "ffn_norm",
          .gate_proj = "ffn_gate",
          .up_proj = "ffn_up",
          .down_proj = "ffn_down",
          .post_feed_forward_norm = "post_ffw_norm",
          .experts = {.router = "ffn_gate_inp",
                      .correction_bias = "exp_probs_b.bias",
                      .shared_expert = {"ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"},
                      .shared_expert_gate = "ffn_gate_inp_shexp",
                      .experts = {},
                      .parts = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}},
          .latent_attention = {.q_proj = "attn_q",
                               .q_a_proj = "attn_q_a",
                               .q_a_norm = "attn_q_a_norm",
                               .q_b_proj = "attn_q_b",
                               .kv_a_proj = "attn_kv_a_mqa",
                               .kv_a_norm = "attn_kv_a_norm",
                               .kv_b_proj = "attn_kv_b",
                               .o_proj = "attn_output"}};
}

namespace tensor_names {

std::string weight_of(const std::string& layer) { return layer + ".weight"; }
std::string bias_of(const std::string& layer) { return layer + ".bias"; }

}  // namespace tensor_names
}  // namespace tp

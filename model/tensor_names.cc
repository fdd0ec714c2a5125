#include "model/tensor_names.h"

#include <fmt/format.h>

namespace tp::tensor_names {

std::string embed_tokens() { return "model.embed_tokens"; }
std::string final_norm() { return "model.norm"; }
std::string lm_head() { return "lm_head"; }

Block::Block(std::size_t layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  input_norm = prefix + "input_layernorm";
  q_proj = prefix + "self_attn.q_proj";
  k_proj = prefix + "self_attn.k_proj";
  v_proj = prefix + "self_attn.v_proj";
  o_proj = prefix + "self_attn.o_proj";
  post_attention_norm = prefix + "post_attention_layernorm";
  gate_proj = prefix + "mlp.gate_proj";
  up_proj = prefix + "mlp.up_proj";
  down_proj = prefix + "mlp.down_proj";
}

GatedMlp Experts::expert(std::size_t index) const {
  const std::string prefix = fmt::format("{}{}.", experts, index);
  return {prefix + parts.gate_proj, prefix + parts.up_proj, prefix + parts.down_proj};
}

std::string weight_of(const std::string& layer) { return layer + ".weight"; }
std::string bias_of(const std::string& layer) { return layer + ".bias"; }

}  // namespace tp::tensor_names

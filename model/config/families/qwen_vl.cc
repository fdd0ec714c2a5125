// The language models of Qwen2.5-VL, Qwen3-VL and Qwen3-VL-MoE: Qwen 2 and 3. In texts, all three positions
// of mRoPE are equal, so mRoPE equals plain RoPE.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

// Published files store the experts' matrices transposed.
BlockNames qwen3_vl_moe_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.experts.stacks = {.gate_up_proj = names.experts.experts + "gate_up_proj",
                          .gate_up_bias = {},
                          .down_proj = names.experts.experts + "down_proj",
                          .down_bias = {},
                          .transposed = true};
  return names;
}

Family with_vision(Family family, const std::string& architecture) {
  family.architecture = architecture;
  family.names.part_prefix = "language_model.";
  family.tied_by_outer_field = true;
  family.reranker.clear();
  family.gguf.config = nullptr;
  return family;
}

}  // namespace

// Older files have all fields and names outside of a language model.
Family qwen2_5_vl() {
  Family family = with_vision(qwen2(), "Qwen2_5_VLForConditionalGeneration");
  family.gguf.architecture = "qwen2vl";
  return family;
}

Family qwen3_vl() {
  Family family = with_vision(qwen3(), "Qwen3VLForConditionalGeneration");
  family.defaults.max_position_embeddings = 128000;
  family.defaults.rope_theta = 5e6;
  family.gguf.architecture = "qwen3vl";
  return family;
}

Family qwen3_vl_moe() {
  const auto read = qwen3_moe().gguf.config;
  Family family = with_vision(qwen3_moe(), "Qwen3VLMoeForConditionalGeneration");
  family.names.names_of_block = qwen3_vl_moe_block;
  family.defaults.max_position_embeddings = 128000;
  family.defaults.rope_theta = 5e6;
  family.defaults.head_dim = 128;
  family.defaults.experts.norm_topk_prob = true;
  family.gguf = {.architecture = "qwen3vlmoe", .config = read};
  return family;
}

}  // namespace tp::families

// Qwen3.5, 3.6 and 3.8: Qwen3-Next with or without experts. The recurrent layers' projections are stored in
// four tensors. Published checkpoints also contain a vision tower.
#include "model/config/families/common.h"

namespace tp::families {

// In texts, all three positions of mRoPE are equal, so mRoPE equals plain RoPE.
Family qwen3_5_moe() {
  Family family = derived(qwen3_next(), "Qwen3_5MoeForConditionalGeneration");
  family.aliases = {"Qwen3_5MoeForCausalLM"};
  family.names.part_prefix = "language_model.";
  family.names.gguf.tiled_value_heads = true;
  family.gguf = {.architecture = "qwen35moe", .config = qwen3_next_config};
  family.fixed_fields = {{"attn_output_gate", "true"}, {"mtp_use_dedicated_embeddings", "false"}};
  family.defaults.vocab_size = 248320;
  family.defaults.hidden_size = 2048;
  family.defaults.intermediate_size = 512;  // unused: all layers have experts
  family.defaults.num_hidden_layers = 40;
  family.defaults.num_attention_heads = 16;
  family.defaults.num_key_value_heads = 2;
  family.defaults.num_experts = 256;
  family.defaults.experts.num_experts_per_tok = 8;
  family.defaults.mrope_section = {11, 11, 10};
  return family;
}

Family qwen3_5() {
  Family family = derived(qwen3_5_moe(), "Qwen3_5ForConditionalGeneration");
  family.aliases = {"Qwen3_5ForCausalLM"};
  family.gguf = {.architecture = "qwen35", .config = gated_delta_net_config};
  family.defaults.hidden_size = 4096;
  family.defaults.intermediate_size = 12288;
  family.defaults.num_hidden_layers = 32;
  family.defaults.num_key_value_heads = 4;
  family.defaults.num_experts = 0;
  return family;
}

}  // namespace tp::families

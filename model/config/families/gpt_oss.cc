// GPT-OSS: Mistral with windows in every second layer, attention sinks, biases everywhere, and experts with a
// clamped activation, stored in stacks.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec gpt_oss_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  set_windows(config, spec, [](std::size_t layer) { return layer % 2 == 0; });
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router.bias = true;
  experts.router.normalize = true;
  // Like the original code, ignores swiglu_limit and always clamps to 7.
  experts.activation = Activation::clamped_swiglu;
  experts.bias = true;
  set_experts(config, experts, spec, [](std::size_t) { return true; });
  for (BlockSpec& block : spec.blocks) attention_of(block).sinks = true;
  return spec;
}

BlockNames gpt_oss_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.sinks = prefix + "self_attn.sinks";
  names.experts.router = prefix + "mlp.router";
  const std::string experts = prefix + "mlp.experts.";
  names.experts.stacks = {.gate_up_proj = experts + "gate_up_proj",
                          .gate_up_bias = experts + "gate_up_proj_bias",
                          .down_proj = experts + "down_proj",
                          .down_bias = experts + "down_proj_bias",
                          .transposed = true,
                          .alternating = true};
  return names;
}

nlohmann::json gpt_oss_config(const ModelMetadata& model) {
  return {{"num_local_experts", model.whole("expert_count")},
          {"num_experts_per_tok", model.whole("expert_used_count")},
          {"intermediate_size", model.whole("expert_feed_forward_length")},
          {"sliding_window", model.whole("attention.sliding_window")},
          {"rope_scaling", {{"truncate", false}}}};
}

}  // namespace

Family gpt_oss() {
  Family family = llama_like("GptOssForCausalLM", gpt_oss_spec, gpt_oss_block);
  family.names.gguf.block.pre_feed_forward_norm = "post_attention_norm";
  family.gguf = {.architecture = "gpt-oss", .config = gpt_oss_config};
  family.defaults.max_position_embeddings = 131072;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.rope_theta = 150000;
  family.defaults.head_dim = 64;
  family.defaults.attention_bias = true;
  family.defaults.sliding_window = 128;
  family.defaults.num_experts = 128;
  family.defaults.experts.num_experts_per_tok = 4;
  return family;
}

}  // namespace tp::families

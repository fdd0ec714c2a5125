// Cohere's Command R: Llama with layer norms without biases, one norm per block, interleaved RoPE and scaled
// logits. Cohere 2 (Command R7B and A): most layers have a sliding window; the other layers have no RoPE.
// Command A+: the same with experts after some dense layers, which all have RoPE.
#include "model/config/config.h"
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec cohere_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  NormSpec norm = layer_norm_of(config);
  norm.bias = false;
  set_norms(spec, norm);
  share_input(spec);
  for (BlockSpec& block : spec.blocks) {
    AttentionSpec& attention = attention_of(block);
    attention.interleaved_rope = true;
    if (!config.use_qk_norm) continue;
    attention.query_key_norm = norm;
    attention.query_key_norm_per_head = true;
  }
  return spec;
}

ModelSpec cohere2_spec(const CheckpointConfig& config) {
  ModelSpec spec = cohere_spec(config);
  set_windows(config, spec, [](std::size_t) { return false; });
  for (BlockSpec& block : spec.blocks) {
    if (!attention_of(block).pattern.window) attention_of(block).rope.reset();
  }
  return spec;
}

MixtureOfExpertsSpec cohere2_experts(const CheckpointConfig& config) {
  const std::string& function = config.experts.expert_selection_fn;
  const std::string& combination = config.experts.shared_expert_combination_strategy;
  require<ConfigError>(
      (function == "sigmoid" || function == "softmax") && (combination == "average" || combination == "sum"),
      "expert_selection_fn must be sigmoid or softmax, and shared_expert_combination_strategy average "
      "or sum, found \"{}\" and \"{}\"; use a model without this variant",
      function, combination);
  MixtureOfExpertsSpec experts = experts_of(config);
  if (function == "sigmoid") experts.router.scoring = RouterSpec::Scoring::sigmoid;
  // The softmax is over the chosen experts only.
  if (function == "softmax") experts.router.normalize = true;
  experts.shared_intermediate_size = config.experts.n_shared_experts * experts.intermediate_size;
  if (experts.shared_intermediate_size != 0 && combination == "average")
    experts.router.scale = experts.shared_scale = 0.5F;
  return experts;
}

ModelSpec cohere2_moe_spec(const CheckpointConfig& config) {
  ModelSpec spec = cohere2_spec(config);
  const std::size_t dense = config.experts.first_k_dense_replace;
  ignore_next_token_layers(config, spec.names);
  if (config.rms_norm_eps != 0) {
    set_norms(spec, {.eps = static_cast<float>(config.rms_norm_eps)});
    share_input(spec);
  }
  for (std::size_t layer = 0; layer < std::min(dense, spec.blocks.size()); ++layer) {
    BlockSpec& block = spec.blocks[layer];
    attention_of(block).rope = RopeSpec{config.rope_theta, config.rope_scaling, rotary_dim(config)};
    if (config.experts.prefix_dense_sliding_window_pattern == 1) attention_of(block).pattern.window.reset();
    if (config.experts.intermediate_size_mlp != 0)
      std::get<GatedMlpSpec>(block.feed_forward).intermediate_size = config.experts.intermediate_size_mlp;
  }
  set_experts(config, cohere2_experts(config), spec, [&](std::size_t layer) { return layer >= dense; });
  return spec;
}

BlockNames cohere2_moe_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.experts.shared_expert = usual_names(kSharedExpertTensors, prefix + "mlp.shared_experts.");
  return names;
}

nlohmann::json cohere_config(const ModelMetadata& model) {
  return {{"layer_norm_eps", model.number("attention.layer_norm_epsilon")},
          {"logit_scale", model.number("logit_scale")},
          {"use_qk_norm", model.has_tensor("blk.0.attn_q_norm.weight")}};
}

nlohmann::json cohere2_config(const ModelMetadata& model) {
  nlohmann::json config = cohere_config(model);
  config["sliding_window"] = model.whole("attention.sliding_window");
  return config;
}

// Files say which of the two norms a model has by its epsilon. Shared experts are averaged with the others.
nlohmann::json cohere2_moe_config(const ModelMetadata& model) {
  constexpr std::uint64_t kSoftmax = 1;
  nlohmann::json config = sigmoid_experts_in_gguf(model);
  config.update(gguf_windows(model));
  const bool is_softmax = model.whole_or("expert_gating_func", 2) == kSoftmax;
  config.update({{"rms_norm_eps", model.number_or("attention.layer_norm_rms_epsilon", 0.0)},
                 {"layer_norm_eps", model.number_or("attention.layer_norm_epsilon", 0.0)},
                 {"logit_scale", model.number("logit_scale")},
                 {"expert_selection_fn", is_softmax ? "softmax" : "sigmoid"},
                 {"prefix_dense_intermediate_size", model.whole("feed_forward_length")},
                 {"prefix_dense_sliding_window_pattern", 0}});
  return config;
}

}  // namespace

Family cohere() {
  Family family = llama_like("CohereForCausalLM", cohere_spec);
  family.defaults.max_position_embeddings = 8192;
  family.defaults.logit_scale = 0.0625;
  family.defaults.tie_word_embeddings = true;
  family.gguf = {.architecture = "command-r", .config = cohere_config};
  return family;
}

Family cohere2() {
  Family family = derived(cohere(), "Cohere2ForCausalLM", cohere2_spec);
  family.fixed_fields = {{"use_qk_norm", "false"},
                         {"use_parallel_block", "true"},
                         {"use_gated_activation", "true"},
                         {"position_embedding_type", "\"rope_gptj\""}};
  family.defaults.sliding_window = 4096;
  family.defaults.sliding_window_pattern = 4;
  family.gguf = {.architecture = "cohere2", .config = cohere2_config};
  return family;
}

// An rms_norm_eps of 0 stands for a layer norm.
Family cohere2_moe() {
  Family family = derived(cohere2(), "Cohere2MoeForCausalLM", cohere2_moe_spec, cohere2_moe_block);
  family.gguf = {.architecture = "cohere2moe",
                 .config = cohere2_moe_config,
                 .stores_windows = true,
                 .describes_router = true};
  family.defaults.rms_norm_eps = 0;
  family.defaults.experts.norm_topk_prob = true;
  family.defaults.experts.prefix_dense_sliding_window_pattern = 1;
  family.defaults.experts.expert_selection_fn = "softmax";
  family.defaults.experts.shared_expert_combination_strategy = "average";
  return family;
}

}  // namespace tp::families

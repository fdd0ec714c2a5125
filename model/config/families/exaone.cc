// EXAONE 4: Llama with norms of the outputs of attention and MLP instead of the inputs, and of each query and
// key head. If some layers have a window, the other layers have no RoPE. K-EXAONE: the same with norms of
// inputs, and DeepSeek-V3's choice of experts.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec exaone_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  set_windows(config, spec, [](std::size_t) { return false; });  // layer_types decides
  for (BlockSpec& block : spec.blocks) {
    AttentionSpec& attention = attention_of(block);
    attention.query_key_norm = spec.final_norm;
    if (config.sliding_window != 0 && !attention.pattern.window) attention.rope.reset();
  }
  return spec;
}

ModelSpec exaone4_spec(const CheckpointConfig& config) {
  ModelSpec spec = exaone_spec(config);
  norm_results_only(spec);
  return spec;
}

ModelSpec exaone_moe_spec(const CheckpointConfig& config) {
  ModelSpec spec = exaone_spec(config);
  ignore_next_token_layers(config, spec.names);  // GGUF files store them after the last layer
  set_sigmoid_experts(config, spec);
  return spec;
}

BlockNames exaone_moe_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.experts.correction_bias = prefix + "mlp.e_score_correction_bias";
  names.experts.shared_expert = usual_names(kSharedExpertTensors, prefix + "mlp.shared_experts.");
  return names;
}

nlohmann::json exaone_moe_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = sigmoid_experts_in_gguf(model);
  config.update(gguf_windows(model));
  return config;
}

}  // namespace

Family exaone4() {
  Family family = llama_like("Exaone4ForCausalLM", exaone4_spec, post_norm_block);
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.sliding_window = 4096;
  family.defaults.sliding_window_pattern = 4;
  family.gguf = {.architecture = "exaone4", .config = gguf_windows, .stores_windows = true};
  return family;
}

Family exaone_moe() {
  Family family = llama_like("ExaoneMoEForCausalLM", exaone_moe_spec, exaone_moe_block);
  family.aliases = {"ExaoneMoeForCausalLM"};
  family.fixed_fields = {
      {"sliding_windows", "null"}, {"scoring_func", "\"sigmoid\""}, {"topk_method", "\"noaux_tc\""}};
  family.names.ignored_prefixes = {"mtp."};
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.sliding_window = 4096;
  family.defaults.sliding_window_pattern = 4;
  family.defaults.experts.norm_topk_prob = true;
  family.defaults.experts.n_shared_experts = 1;
  family.defaults.experts.routed_scaling_factor = 2.5;
  family.gguf = {.architecture = "exaone-moe", .config = exaone_moe_in_gguf, .stores_windows = true};
  return family;
}

}  // namespace tp::families

// Granite 4: Granite with Mamba-2 mixers instead of attention in most layers. Each layer has a shared expert
// beside other experts, or only an MLP.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <cmath>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

BlockNames granite_hybrid_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  const std::string mlp = prefix + "shared_mlp.";
  names.mamba = usual_names(kMambaTensors, prefix + "mamba.");
  names.gate_proj = mlp + "gate_proj";
  names.up_proj = mlp + "up_proj";
  names.down_proj = mlp + "output_linear";
  names.gate_up_proj = mlp + "input_linear";
  names.experts = {};
  return names;
}

// The MLP's tensors belong to the shared expert.
BlockNames granite_hybrid_moe_block(const std::string& prefix) {
  BlockNames names = granite_hybrid_block(prefix);
  const std::string moe = prefix + "block_sparse_moe.";
  names.experts = {.router = moe + "router.layer",
                   .correction_bias = {},
                   .shared_expert = {.gate_proj = names.gate_proj,
                                     .up_proj = names.up_proj,
                                     .down_proj = names.down_proj,
                                     .gate_up_proj = names.gate_up_proj},
                   .shared_expert_gate = {},
                   .experts = moe + "experts.",
                   .parts = usual_names(kOneExpertTensors, ""),
                   .stacks = {.gate_up_proj = moe + "input_linear.weight",
                              .gate_up_bias = {},
                              .down_proj = moe + "output_linear.weight",
                              .down_bias = {}}};
  for (std::string* name : {&names.gate_proj, &names.up_proj, &names.down_proj, &names.gate_up_proj})
    name->clear();
  return names;
}

void set_hybrid_names(bool has_experts, TensorNames& names) {
  names.names_of_block = has_experts ? granite_hybrid_moe_block : granite_hybrid_block;
}

ModelSpec granite_hybrid_spec(const CheckpointConfig& config) {
  CheckpointConfig dense = config;
  dense.intermediate_size = config.experts.shared_expert_intermediate_size;
  ModelSpec spec = granite_spec(dense);
  remove_rope(config, spec);
  set_mixers(config, mamba_of(config, config.rms_norm_eps, false), spec);
  set_hybrid_names(config.num_experts != 0, spec.names);
  if (config.num_experts == 0) return spec;
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router.normalize = true;
  experts.shared_intermediate_size = config.experts.shared_expert_intermediate_size;
  set_experts(config, experts, spec, [](std::size_t) { return true; });
  return spec;
}

// rope.scaling.finetuned tells whether layers with attention have RoPE.
nlohmann::json granite_hybrid_config(const ModelMetadata& model) {
  const double usual_scale = 1.0 / std::sqrt(static_cast<double>(model.head_dim()));
  nlohmann::json config = mamba_in_gguf(model);
  config.update(
      {{"embedding_multiplier", model.number_or("embedding_scale", 1.0)},
       {"residual_multiplier", model.number_or("residual_scale", 1.0)},
       {"attention_multiplier", model.number_or("attention.scale", usual_scale)},
       {"logits_scaling", model.number_or("logit_scale", 1.0)},
       {"position_embedding_type", model.boolean_or("rope.scaling.finetuned", true) ? "rope" : "nope"},
       {"num_local_experts", model.whole_or("expert_count", 0)},
       {"num_experts_per_tok", model.whole_or("expert_used_count", 0)},
       {"shared_intermediate_size",
        model.whole_or("expert_shared_feed_forward_length", model.whole_or("feed_forward_length", 0))}});
  if (config["num_experts_per_tok"] == 0) config["num_experts_per_tok"] = nullptr;
  config["layer_types"] = gguf_mixer_layers(model);
  return config;
}

}  // namespace

Family granite_hybrid() {
  Family family =
      derived(granite(), "GraniteMoeHybridForCausalLM", granite_hybrid_spec, granite_hybrid_moe_block);
  family.fixed_fields = fixed_mamba_fields();
  family.layer_types = mamba_layer_types();
  family.fixed_fields.push_back({"normalization_function", "\"rmsnorm\""});
  family.gguf = {.architecture = "granitehybrid",
                 .config = granite_hybrid_config,
                 .adapt_names = [](const ModelMetadata& model, TensorNames& names) {
                   set_hybrid_names(model.whole_or("expert_count", 0) != 0, names);
                 }};
  family.defaults.mamba.n_heads = 128;
  family.defaults.mamba.d_state = 256;
  family.defaults.mamba.d_conv = 4;
  family.defaults.num_experts = 8;
  family.defaults.experts.num_experts_per_tok = 2;
  family.defaults.experts.shared_expert_intermediate_size = 1024;
  return family;
}

}  // namespace tp::families

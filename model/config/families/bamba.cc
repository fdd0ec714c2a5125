// Bamba: Llama with Mamba-2 mixers instead of attention in most layers, and RoPE in half of each head.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec bamba_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  set_mixers(config, mamba_of(config, config.rms_norm_eps, false), spec);
  return spec;
}

// Granite has the same architecture, but its files have a factor of the embedding.
bool is_file_of_bamba(const ModelMetadata& model) { return !model.has("embedding_scale"); }

nlohmann::json bamba_config(const ModelMetadata& model) {
  nlohmann::json config = mamba_in_gguf(model);
  config["layer_types"] = gguf_mixer_layers(model);
  return config;
}

}  // namespace

BlockNames bamba_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  const std::string mlp = prefix + "feed_forward.";
  names.mamba = usual_names(kMambaTensors, prefix + "mamba.");
  names.pre_feed_forward_norm = prefix + "pre_ff_layernorm";
  names.gate_proj = mlp + "gate_proj";
  names.up_proj = mlp + "up_proj";
  names.down_proj = mlp + "down_proj";
  return names;
}

Family bamba() {
  Family family = llama_like("BambaForCausalLM", bamba_spec, bamba_block);
  family.fixed_fields = fixed_mamba_fields();
  family.layer_types = mamba_layer_types();
  family.names.final_norm = "final_layernorm";
  family.names.gguf.interleaved_query_key = true;
  family.gguf = {.architecture = "granitehybrid", .is_of = is_file_of_bamba, .config = bamba_config};
  family.defaults.partial_rotary_factor = 0.5;
  family.defaults.mamba.n_heads = 128;
  family.defaults.mamba.d_state = 256;
  family.defaults.mamba.d_conv = 4;
  family.defaults.rms_norm_eps = 1e-5;
  return family;
}

}  // namespace tp::families

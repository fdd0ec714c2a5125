// StarCoder2: GPT-NeoX with Llama's names and wiring, biases everywhere, and an optional sliding window.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec starcoder2_spec(const CheckpointConfig& config) {
  ModelSpec spec = gpt_neox_spec(config);
  set_windows(config, spec, [](std::size_t) { return true; });
  return spec;
}

BlockNames starcoder2_block(const std::string& prefix) {
  BlockNames names = arcee_block(prefix);
  names.up_proj = prefix + "mlp.c_fc";
  names.down_proj = prefix + "mlp.c_proj";
  return names;
}

// llama.cpp's converter does not write the window.
nlohmann::json starcoder2_config(const ModelMetadata& model) {
  nlohmann::json config = {{"layer_norm_eps", model.number("attention.layer_norm_epsilon")},
                           {"hidden_act", "gelu_pytorch_tanh"}};
  if (model.has("attention.sliding_window"))
    config["sliding_window"] = model.whole("attention.sliding_window");
  return config;
}

}  // namespace

Family starcoder2() {
  Family family{.architecture = "Starcoder2ForCausalLM",
                .fixed_fields = {{"norm_type", "\"layer_norm\""}, {"mlp_type", "\"default\""}},
                .names = llama_names(),
                .make_spec = starcoder2_spec};
  family.defaults.hidden_act = "gelu_pytorch_tanh";
  family.defaults.max_position_embeddings = 4096;
  family.defaults.use_parallel_residual = false;
  family.defaults.attention_bias = true;
  family.defaults.mlp_bias = true;
  family.defaults.tie_word_embeddings = true;
  family.names.names_of_block = starcoder2_block;
  family.gguf = {.architecture = "starcoder2", .config = starcoder2_config};
  return family;
}

}  // namespace tp::families

// Arcee's AFM: Llama with an MLP without a gate. Apertus: AFM with norms of queries and keys, and xIELU
// activations with parameters for each layer.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec arcee_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  set_plain_mlps(config, spec);
  return spec;
}

ModelSpec apertus_spec(const CheckpointConfig& config) {
  CheckpointConfig without_xielu = config;
  without_xielu.hidden_act = "relu2";
  ModelSpec spec = arcee_spec(without_xielu);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).query_key_norm = block.input_norm;
    std::get<PlainMlpSpec>(block.feed_forward).learned_xielu = true;
  }
  return spec;
}

BlockNames apertus_block(const std::string& prefix) {
  BlockNames names = arcee_block(prefix);
  names.input_norm = prefix + "attention_layernorm";
  names.pre_feed_forward_norm = prefix + "feedforward_layernorm";
  names.activation = prefix + "mlp.act_fn.";
  return names;
}

nlohmann::json arcee_config(const ModelMetadata&) { return {{"hidden_act", "relu2"}}; }
nlohmann::json apertus_config(const ModelMetadata&) { return {{"hidden_act", "xielu"}}; }

}  // namespace

BlockNames arcee_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.gate_proj.clear();
  return names;
}

Family arcee() {
  Family family = llama_like("ArceeForCausalLM", arcee_spec, arcee_block);
  family.defaults.hidden_act = "relu2";
  family.defaults.max_position_embeddings = 4096;
  family.defaults.rms_norm_eps = 1e-5;
  family.names.gguf.interleaved_query_key = true;
  family.gguf = {.architecture = "arcee", .config = arcee_config};
  return family;
}

Family apertus() {
  Family family{.architecture = "ApertusForCausalLM",
                .fixed_fields = {{"hidden_act", "\"xielu\""}},
                .names = llama_names(),
                .make_spec = apertus_spec};
  family.defaults.hidden_act = "xielu";
  family.defaults.max_position_embeddings = 65536;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.rope_theta = 12e6;
  family.names.names_of_block = apertus_block;
  family.gguf = {.architecture = "apertus", .config = apertus_config};
  return family;
}

}  // namespace tp::families

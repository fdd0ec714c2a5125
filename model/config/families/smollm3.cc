// SmolLM3: Llama without RoPE in every fourth layer. If there is a window, only these layers have it.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

ModelSpec smollm3_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  remove_rope(config, spec);
  set_windows(config, spec, [&](std::size_t layer) { return config.no_rope_layers[layer] == 0; });
  return spec;
}

}  // namespace

Family smollm3() {
  Family family = llama_like("SmolLM3ForCausalLM", smollm3_spec);
  family.defaults.no_rope_layer_interval = 4;
  family.defaults.use_sliding_window = false;
  family.defaults.max_position_embeddings = 32768;
  family.defaults.num_key_value_heads = 4;
  family.defaults.rope_theta = 2e6;
  family.defaults.tie_word_embeddings = true;
  family.names.gguf.interleaved_query_key = true;
  family.gguf = {.architecture = "smollm3"};
  return family;
}

}  // namespace tp::families

// EXAONE 4: Llama with norms of the outputs of attention and MLP instead of the inputs, and of each query and
// key head. If some layers have a window, the other layers have no RoPE.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

ModelSpec exaone4_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  norm_results_only(spec);
  set_windows(config, spec, [](std::size_t) { return false; });  // layer_types decides
  for (BlockSpec& block : spec.blocks) {
    AttentionSpec& attention = attention_of(block);
    attention.query_key_norm = spec.final_norm;
    if (config.sliding_window != 0 && !attention.pattern.window) attention.rope.reset();
  }
  return spec;
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

}  // namespace tp::families

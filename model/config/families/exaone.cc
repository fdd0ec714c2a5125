// EXAONE 4: Llama that norms what the halves of a block add instead of what they read, and every query and
// key head. Where some layers have a window, the others have no positions.
#include "model/config/families/common.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

DecoderSpec exaone4_spec(const ModelConfig& config) {
  DecoderSpec spec = llama_spec(config);
  norm_results_only(spec);
  set_windows(config, spec, [](std::size_t) { return false; });  // config.json, or the default, names them
  for (BlockSpec& block : spec.blocks) {
    AttentionSpec& attention = attention_of(block);
    attention.query_key_norm = spec.final_norm;
    if (config.sliding_window != 0 && !attention.pattern.window) attention.rope.reset();
  }
  return spec;
}

}  // namespace

Family exaone4() {
  Family family{.architecture = "Exaone4ForCausalLM", .names = llama_names(), .make_spec = exaone4_spec};
  family.names.names_of_block = post_norm_block;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.sliding_window = 4096;
  family.defaults.sliding_window_pattern = 4;
  family.gguf = {.architecture = "exaone4", .config = gguf_windows, .stores_windows = true};
  return family;
}

}  // namespace tp::families

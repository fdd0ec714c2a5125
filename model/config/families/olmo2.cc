// OLMo 2: Llama with norms of the outputs of attention and MLP instead of the inputs, one norm over all query
// heads, and one over all key heads. OLMo 3 has windows in three of four layers; the RoPE of the other layers
// may be scaled.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

namespace tp::families {
namespace {

ModelSpec olmo2_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  norm_results_only(spec);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).query_key_norm = spec.final_norm;
    attention_of(block).norms_whole_projections = true;
  }
  return spec;
}

ModelSpec olmo3_spec(const CheckpointConfig& config) {
  ModelSpec spec = olmo2_spec(config);
  set_windows(config, spec, [](std::size_t) { return false; });  // layer_types decides
  set_local_rope(config, config.rope_theta, spec);
  return spec;
}

}  // namespace

Family olmo2() {
  Family family = llama_like("Olmo2ForCausalLM", olmo2_spec, post_norm_block);
  family.defaults.rms_norm_eps = 1e-5;
  family.gguf = {.architecture = "olmo2",
                 .is_of = [](const ModelMetadata& model) { return !model.has("attention.sliding_window"); }};
  return family;
}

Family olmo3() {
  Family family = derived(olmo2(), "Olmo3ForCausalLM", olmo3_spec);
  family.defaults.sliding_window = 4096;
  family.defaults.sliding_window_pattern = 4;
  family.gguf = {.architecture = "olmo2",
                 .is_of = [](const ModelMetadata& model) { return model.has("attention.sliding_window"); },
                 .config = gguf_windows,
                 .stores_windows = true};
  return family;
}

}  // namespace tp::families

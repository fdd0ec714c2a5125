// Phi-3: Mistral with fused projections and its own RoPE scaling (longrope).
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

BlockNames phi3_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  set_qkv(names, prefix + "self_attn.qkv_proj");
  names.gate_proj = names.up_proj = prefix + "mlp.gate_up_proj";
  return names;
}

nlohmann::json phi3_config(const ModelMetadata& model) {
  const std::uint64_t window = model.whole_or("attention.sliding_window", 0);
  return {{"original_max_position_embeddings",
           model.whole_or("rope.scaling.original_context_length", model.whole("context_length"))},
          {"sliding_window", window == 0 ? nlohmann::json(nullptr) : nlohmann::json(window)}};
}

}  // namespace

Family phi3() {
  Family family = llama_like("Phi3ForCausalLM", mistral_spec, phi3_block);
  family.defaults.max_position_embeddings = 4096;
  family.defaults.rms_norm_eps = 1e-5;
  set_qkv(family.names.gguf.block, "attn_qkv");
  family.names.gguf.block.gate_proj = family.names.gguf.block.up_proj;
  family.gguf = {.architecture = "phi3", .config = phi3_config};
  return family;
}

}  // namespace tp::families

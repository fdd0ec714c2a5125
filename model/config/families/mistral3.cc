// Mistral 3: Mistral, possibly with queries scaled by position, alone or in a multimodal model. Mistral 4:
// DeepSeek-V2 in a multimodal model, with softmax scores that are normalized to add up to 1.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

// This key contains mscale_all_dim in Mistral 3's files, and a tenth of it in other files.
nlohmann::json mistral3_config(const ModelMetadata& model) {
  const char* const key = "rope.scaling.yarn_log_multiplier";
  if (!model.has(key)) return nlohmann::json::object();
  return {{"rope_scaling", {{"mscale", 1.0}, {"mscale_all_dim", model.number(key)}}}};
}

}  // namespace

Family mistral3() {
  Family family = derived(mistral(), "Mistral3ForConditionalGeneration");
  family.aliases = {"Ministral3ForCausalLM"};
  family.language_models = {{"mistral4", "Mistral4ForCausalLM"}};
  family.names.part_prefix = "language_model.";
  family.names.buffers.emplace_back(".weight_scale_inv");  // factors of F8 elements, part of their tensors
  family.gguf = {.architecture = "mistral3", .config = mistral3_config};
  family.defaults.sliding_window = 0;
  family.defaults.rms_norm_eps = 1e-5;
  return family;
}

Family mistral4() {
  Family family = derived(deepseek2(), "Mistral4ForCausalLM");
  family.make_next_token_spec = nullptr;
  family.names.part_prefix = "language_model.";
  family.gguf.architecture = "mistral4";
  family.gguf.is_of = nullptr;
  family.defaults.experts.norm_topk_prob = true;
  family.defaults.experts.n_shared_experts = 1;
  return family;
}

}  // namespace tp::families

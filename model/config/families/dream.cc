// Dream: Qwen 2 with bidirectional attention. Like before its conversion to a diffusion model, logits predict
// the token at the next position. Source: Ye et al., Dream 7B: Diffusion Large Language Models, 2025, and its
// code.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

ModelSpec dream_spec(const CheckpointConfig& config) {
  ModelSpec spec = qwen2_spec(config);
  spec.bidirectional = true;
  for (BlockSpec& block : spec.blocks) attention_of(block).pattern.causal = false;
  spec.diffusion = DiffusionSpec{.mask_token = config.mask_token_id,
                                 .shifted = true,
                                 .filtered_confidence = true,
                                 .schedule = DiffusionSpec::Schedule::decaying,
                                 .above = DiffusionSpec::Above::within_schedule};
  return spec;
}

}  // namespace

Family dream() {
  Family family = derived(qwen2(), "DreamModel", dream_spec);
  family.kind = ModelKind::diffusion;
  family.defaults.mask_token_id = 151666;
  family.gguf = {};
  return family;
}

}  // namespace tp::families

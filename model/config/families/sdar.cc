// SDAR: Qwen 3 with attention to the token's own block, a few tokens long, and to earlier blocks. Source:
// Cheng et al., SDAR: A Synergistic Diffusion-AutoRegression Paradigm, 2025, and its code.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

ModelSpec sdar_spec(const CheckpointConfig& config) {
  ModelSpec spec = qwen3_spec(config);
  spec.diffusion = unmasked_by_blocks(config);
  return spec;
}

}  // namespace

Family sdar() {
  Family family = derived(qwen3(), "SDARForCausalLM", sdar_spec);
  family.kind = ModelKind::diffusion;
  family.defaults.mask_token_id = 151669;
  family.defaults.encoder.block_size = 4;
  family.gguf = {};
  return family;
}

}  // namespace tp::families

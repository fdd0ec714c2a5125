// LLaDA2: Ling 2 with attention to the token's own block and to earlier blocks. Logits predict the token at
// their own position. Source: Bie et al., LLaDA2.0: Scaling Up Diffusion Language Models to 100B, 2025, and
// its code.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

ModelSpec llada2_spec(const CheckpointConfig& config) {
  ModelSpec spec = ling2().make_spec(config);
  spec.diffusion = unmasked_by_blocks(config);
  return spec;
}

}  // namespace

// The family's code takes the mask and the length of blocks as arguments, so that files lack them.
Family llada2() {
  Family family = derived(ling2(), "LLaDA2MoeModelLM", llada2_spec);
  family.kind = ModelKind::diffusion;
  family.fixed_fields.push_back({"use_sliding_window", "false"});
  family.make_next_token_spec = nullptr;
  family.defaults.mask_token_id = 156895;
  family.defaults.encoder.block_size = 32;
  family.gguf = {};
  return family;
}

}  // namespace tp::families

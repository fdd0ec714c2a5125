// Helium: Llama with interleaved RoPE, like GLM.
#include "model/config/families/common.h"

namespace tp::families {

Family helium() {
  Family family = llama_like("HeliumForCausalLM", glm_spec);
  family.defaults.head_dim = 128;
  family.defaults.max_position_embeddings = 4096;
  family.defaults.rms_norm_eps = 1e-8;
  family.defaults.rope_theta = 1e5;
  return family;
}

}  // namespace tp::families

// Seed-OSS: Llama whose config says of the output projection's bias by itself.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

DecoderSpec seed_oss_spec(const ModelConfig& config) {
  DecoderSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) attention_of(block).o_bias = config.attention_out_bias;
  return spec;
}

}  // namespace

Family seed_oss() {
  Family family{.architecture = "SeedOssForCausalLM", .names = llama_names(), .make_spec = seed_oss_spec};
  family.defaults.head_dim = 128;
  family.defaults.num_key_value_heads = 8;
  family.defaults.max_position_embeddings = 524288;
  family.defaults.attention_bias = true;
  return family;
}

}  // namespace tp::families

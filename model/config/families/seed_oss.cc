// Seed-OSS: Llama whose config says of the output projection's bias by itself.
#include "model/config/families/common.h"
#include "model/weights/checkpoint/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

DecoderSpec seed_oss_spec(const ModelConfig& config) {
  DecoderSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) attention_of(block).o_bias = config.attention_out_bias;
  return spec;
}

nlohmann::json seed_oss_config(const ModelMetadata& model) {
  return {{"attention_bias", model.has_tensor("blk.0.attn_q.bias")},
          {"attention_out_bias", model.has_tensor("blk.0.attn_output.bias")}};
}

}  // namespace

Family seed_oss() {
  Family family{.architecture = "SeedOssForCausalLM", .names = llama_names(), .make_spec = seed_oss_spec};
  family.defaults.head_dim = 128;
  family.defaults.num_key_value_heads = 8;
  family.defaults.max_position_embeddings = 524288;
  family.defaults.attention_bias = true;
  family.names.gguf.block.pre_feed_forward_norm = "post_attention_norm";
  family.gguf = {.architecture = "seed_oss", .config = seed_oss_config};
  return family;
}

}  // namespace tp::families

// Ling 2 and Ring 2: DeepSeek-V3's choice of experts with grouped queries, norms of queries and keys, and
// RoPE in half of each head.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

// `use_qkv_bias` is for queries, keys and values, and `use_bias` for attention's output. Weights of several
// experts are normalized, whatever norm_topk_prob says.
ModelSpec ling2_spec(CheckpointConfig config) {
  if (config.experts.num_experts_per_tok > 1) config.experts.norm_topk_prob = true;
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).o_bias = config.mlp_bias;
    if (config.use_qk_norm) attention_of(block).query_key_norm = block.input_norm;
    std::get<GatedMlpSpec>(block.feed_forward).bias = false;
  }
  ignore_next_token_layers(config, spec.names);
  set_sigmoid_experts(config, spec);
  return spec;
}

BlockNames ling2_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  const std::string attention = prefix + "attention.";
  set_qkv(names, attention + "query_key_value");
  names.q_norm = attention + "query_layernorm";
  names.k_norm = attention + "key_layernorm";
  names.o_proj = attention + "dense";
  names.experts.correction_bias = prefix + "mlp.gate.expert_bias";
  names.experts.shared_expert = usual_names(kSharedExpertTensors, prefix + "mlp.shared_experts.");
  return names;
}

nlohmann::json ling2_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = sigmoid_experts_in_gguf(model);
  config["use_qk_norm"] = model.has_tensor("blk.0.attn_q_norm.weight");
  config["use_bias"] = model.has_tensor("blk.0.attn_output.bias");
  return config;
}

}  // namespace

Family ling2() {
  Family family{.architecture = "BailingMoeV2ForCausalLM",
                .fixed_fields = {{"score_function", "\"sigmoid\""}, {"use_rmsnorm", "true"}},
                .names = llama_names(),
                .make_spec = [](const CheckpointConfig& config) { return ling2_spec(config); }};
  family.names.embed_tokens = "word_embeddings";
  family.names.names_of_block = ling2_block;
  set_qkv(family.names.gguf.block, "attn_qkv");
  family.gguf = {.architecture = "bailingmoe2", .config = ling2_in_gguf};
  family.defaults.max_position_embeddings = 32768;
  family.defaults.partial_rotary_factor = 0.5;
  family.defaults.use_qk_norm = true;
  return family;
}

}  // namespace tp::families

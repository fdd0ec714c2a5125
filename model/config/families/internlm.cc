// InternLM 2: Llama with other names, and queries, keys and values in one tensor, grouped by KV head.
// InternLM 3: Llama with biases that are chosen separately.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

// The field `bias` concerns attention only.
ModelSpec internlm2_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) std::get<GatedMlpSpec>(block.feed_forward).bias = false;
  return spec;
}

BlockNames internlm2_block(const std::string& prefix) {
  BlockNames names;
  const std::string mlp = prefix + "feed_forward.";
  names.input_norm = prefix + "attention_norm";
  names.q_proj = prefix + "attention.wq";  // in GGUF files
  names.k_proj = prefix + "attention.wk";
  names.v_proj = prefix + "attention.wv";
  names.qkv_proj = prefix + "attention.wqkv";
  names.fused_qkv = BlockNames::FusedQkv::by_kv_head;
  names.o_proj = prefix + "attention.wo";
  names.pre_feed_forward_norm = prefix + "ffn_norm";
  names.gate_proj = mlp + "w1";
  names.up_proj = mlp + "w3";
  names.down_proj = mlp + "w2";
  return names;
}

// `qkv_bias` is for queries, keys and values, and `bias` for all other layers.
ModelSpec internlm3_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) attention_of(block).o_bias = config.mlp_bias;
  return spec;
}

}  // namespace

Family internlm2() {
  Family family = llama_like("InternLM2ForCausalLM", internlm2_spec, internlm2_block);
  family.names.embed_tokens = "tok_embeddings";
  family.names.lm_head = "output";
  family.names.gguf.interleaved_query_key = true;
  family.names.gguf.block.qkv_proj.clear();
  family.gguf = {.architecture = "internlm2"};
  family.defaults.attention_bias = true;
  family.defaults.rms_norm_eps = 1e-6;
  return family;
}

// GGUF files of InternLM 3 are read as Llama.
Family internlm3() {
  Family family = llama_like("InternLM3ForCausalLM", internlm3_spec);
  family.names.gguf.interleaved_query_key = true;
  family.gguf = {.architecture = "llama", .is_of = [](const ModelMetadata&) { return false; }};
  family.defaults.max_position_embeddings = 32768;
  return family;
}

}  // namespace tp::families

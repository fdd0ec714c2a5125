// GPT-BigCode, the first StarCoder: GPT-2 with one KV head, and weights that are not transposed. Models
// without multi-query attention store the query, key and value of each head together.
#include "model/config/families/common.h"

namespace tp::families {
namespace {

BlockNames gpt_bigcode_block(const std::string& prefix) {
  BlockNames names = gpt2_block(prefix);
  names.fused_qkv = BlockNames::FusedQkv::by_kv_head;
  names.transposed = false;
  return names;
}

}  // namespace

Family gpt_bigcode() {
  Family family = derived(gpt2(), "GPTBigCodeForCausalLM", nullptr, gpt_bigcode_block);
  family.defaults.hidden_act = "gelu_pytorch_tanh";
  family.defaults.multi_query = true;
  family.gguf.architecture = "starcoder";
  return family;
}

}  // namespace tp::families

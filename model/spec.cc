#include "model/spec.h"

namespace tp {
namespace {

std::size_t count_linear(std::size_t in_features, std::size_t out_features, bool bias) {
  return out_features * (in_features + (bias ? 1 : 0));
}

std::size_t count_block(const BlockSpec& block, std::size_t hidden_size) {
  const AttentionSpec& attention = block.attention;
  const std::size_t query_size = attention.num_attention_heads * attention.head_dim;
  const std::size_t kv_size = attention.num_key_value_heads * attention.head_dim;
  const GatedMlpSpec& mlp = block.mlp;
  return 2 * hidden_size + count_linear(hidden_size, query_size + 2 * kv_size, attention.qkv_bias) +
         count_linear(query_size, hidden_size, attention.o_bias) +
         count_linear(hidden_size, 2 * mlp.intermediate_size, mlp.bias) +
         count_linear(mlp.intermediate_size, hidden_size, mlp.bias);
}

}  // namespace

std::size_t count_parameters(const DecoderSpec& spec) {
  const std::size_t embeddings = spec.vocab_size * spec.hidden_size;
  std::size_t total = embeddings + (spec.tied_embeddings ? 0 : embeddings) + spec.hidden_size;
  for (const BlockSpec& block : spec.blocks) total += count_block(block, spec.hidden_size);
  return total;
}

}  // namespace tp

#pragma once

#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tp::kernels {

// The blocks of one layer of a paged cache on this rank. Block b of KV head h begins at base + (b * kv_heads
// + h) * 2 * block_size * head_dim: keys [head_dim, block_size], then values [block_size, head_dim]. Keys are
// stored as columns, so that the scores of a block are sums of whole rows.
struct PagedCache {
  float* base = nullptr;
  std::size_t num_blocks = 0;
  std::size_t kv_heads = 0;
  std::size_t block_size = 0;
  std::size_t head_dim = 0;

  float* keys(std::size_t block, std::size_t head) const {
    return base + (block * kv_heads + head) * 2 * block_size * head_dim;
  }
  float* values(std::size_t block, std::size_t head) const {
    return keys(block, head) + block_size * head_dim;
  }
};

// Consecutive tokens of one sequence within a batch.
struct AttentionSpan {
  std::size_t first_token = 0;  // row in the batch
  std::size_t tokens = 0;
  std::size_t start_position = 0;             // of the first token; the tokens before it are in the cache
  std::span<const std::int32_t> block_table;  // covers start_position + tokens positions
};

// What a token sees. Causal: itself and the tokens before it; otherwise all tokens of its span as well.
struct AttentionPattern {
  bool causal = true;
  // Of itself and the tokens before it only the last `window`.
  std::optional<std::size_t> window;
};

struct AttentionArgs {
  TensorView<const float> query;  // [tokens, heads * head_dim]
  PagedCache cache;               // holds the keys and values of the spans' tokens too
  std::span<const AttentionSpan> spans;
  std::span<const std::size_t> kv_of_head;  // [heads] the KV head that each query head reads, not descending
  AttentionPattern pattern;
  float scale = 1.0F;         // of query . key
  TensorView<float> scratch;  // [threads, attention_scratch(...)]
  TensorView<float> out;      // [tokens, heads * head_dim]
};

// Floats of scratch that a thread needs for query heads of which at most `group` share a KV head, and
// sequences of at most `max_blocks` blocks.
std::size_t attention_scratch(std::size_t group, std::size_t head_dim, std::size_t block_size,
                              std::size_t max_blocks);

// softmax(query . keys^T * scale) . values for every token and head of a ragged batch, tile by tile: the
// memory it needs does not grow with the square of the tokens.
void paged_attention(const AttentionArgs& args);

// Writes the batch's keys and values, both [tokens, kv_heads * head_dim], to the cache.
void store_keys_values(TensorView<const float> key, TensorView<const float> value,
                       std::span<const AttentionSpan> spans, const PagedCache& cache);

}  // namespace tp::kernels

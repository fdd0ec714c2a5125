#pragma once

#include "model/kernels/attention_pattern.h"
#include "model/kernels/paged_cache.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tp::kernels {

struct AttentionArgs {
  TensorView<const float> query;  // [tokens, heads * key_dim]
  PagedCache cache;               // holds the keys and values of the spans' tokens too
  std::span<const AttentionSpan> spans;
  std::span<const std::size_t> kv_of_head;  // [heads] the KV head that each query head reads, not descending
  AttentionPattern pattern;
  float scale = 1.0F;  // of query . key
  // Scores become softcap * tanh(score / softcap).
  std::optional<float> softcap = {};
  // [heads], or empty: slope * (the key's position - the query's) is added to scores. Source: Press et al.,
  // Train short, test long (ALiBi), 2021.
  std::span<const float> alibi_slopes = {};
  TensorView<float> scratch;  // [threads, attention_scratch(...)]
  TensorView<float> out;      // [tokens, heads * value_dim]
};

// Floats of scratch that a thread needs for query heads of which at most `group` share a KV head, and
// sequences of at most `max_blocks` blocks.
std::size_t attention_scratch(std::size_t group, const KvLayout& layout, std::size_t max_blocks);

// softmax(query . keys^T * scale) . values for every token and head of a ragged batch, tile by tile: the
// memory it needs does not grow with the square of the tokens. Where there are fewer tiles than threads, long
// contexts are split among them. A bf16 cache is multiplied with queries and softmax weights rounded to bf16
// where the machine is fast at that - on a matrix unit, if keys and blocks are multiples of 32 long - and
// with float32 elsewhere.
void paged_attention(const AttentionArgs& args);

}  // namespace tp::kernels

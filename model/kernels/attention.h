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
  // [heads], or empty: logits that join the softmax's denominator and have no value. Source: Xiao et al.,
  // Efficient Streaming Language Models with Attention Sinks, 2023.
  std::span<const float> sinks = {};
  // [heads, 2 * bias_reach + 1], or empty: added to scores by the key's position less the query's, from
  // -bias_reach on; beyond, as at the ends. Source: Raffel et al., Exploring the Limits of Transfer Learning,
  // 2020.
  std::span<const float> relative_bias = {};
  std::size_t bias_reach = 0;
  TensorView<float> scratch;  // [threads, attention_scratch(...)]
  TensorView<float> out;      // [tokens, heads * value_dim]
};

// Floats of scratch per thread, for these query heads and sequences of at most `max_blocks` blocks.
std::size_t attention_scratch(std::span<const std::size_t> kv_of_head, const KvLayout& layout,
                              std::size_t max_blocks);

// softmax(query . keys^T * scale) . values for every token and head of a ragged batch, in tiles, so that
// memory does not grow quadratically with the tokens. If there are fewer tiles than threads, long contexts
// are split among threads. With a bf16 cache, queries and softmax weights are rounded to bf16 too if the
// machine multiplies those faster (on a matrix unit, if keys and blocks are multiples of 32 long), and so
// they are with int8 latents; with an int8 cache of keys and values they are rounded to 16 bits if it
// multiplies bytes (VNNI). Otherwise the arithmetic is float32.
void paged_attention(const AttentionArgs& args);

}  // namespace tp::kernels

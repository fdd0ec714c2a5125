#pragma once

#include "model/kernels/attention_pattern.h"
#include "model/kernels/paged_cache.h"
#include "tp/tensor.h"

#include <cstddef>
#include <optional>
#include <span>

namespace tp::kernels {

struct AttentionArgs {
  TensorView<const float> query;  // [tokens, heads * key_dim]
  PagedCache cache;               // also contains the keys and values of the spans' tokens
  std::span<const AttentionSpan> spans;
  std::span<const std::size_t> kv_of_head;  // [heads] the KV head that each query head reads, sorted
  AttentionPattern pattern;
  float scale = 1.0F;  // factor of query . key
  // Scores become softcap * tanh(score / softcap).
  std::optional<float> softcap = {};
  // [heads], or empty: slope * (the key's position - the query's) is added to scores. Source: Press et al.,
  // Train short, test long (ALiBi), 2021.
  std::span<const float> alibi_slopes = {};
  // [heads], or empty: logits that are part of the softmax's denominator and have no value. Source: Xiao et
  // al., Efficient Streaming Language Models with Attention Sinks, 2023.
  std::span<const float> sinks = {};
  // [heads, 2 * bias_reach + 1], or empty: added to scores by the key's position minus the query's, from
  // -bias_reach. Larger distances use the first or last entry. Source: Raffel et al., Exploring the Limits of
  // Transfer Learning, 2020.
  std::span<const float> relative_bias = {};
  std::size_t bias_reach = 0;
  TensorView<float> scratch;  // [threads, attention_scratch(...)]
  TensorView<float> out;      // [tokens, heads * value_dim]
};

// Floats of scratch per thread for these query heads and sequences of at most `max_blocks` blocks.
std::size_t attention_scratch(std::span<const std::size_t> kv_of_head, const KvLayout& layout,
                              std::size_t max_blocks);

// softmax(query . keys^T * scale) . values for each token and head of a ragged batch, in tiles, so that
// memory does not grow quadratically with the tokens. If there are fewer tiles than threads, long contexts
// are split among threads. With a bf16 cache or int8 latents, queries and softmax weights are rounded to bf16
// if the machine multiplies bf16 faster (on a matrix unit, if keys and blocks are multiples of 32 long). With
// an int8 cache of keys and values, they are rounded to 16 bits if the machine multiplies bytes (VNNI).
// Otherwise the arithmetic is float32.
void paged_attention(const AttentionArgs& args);

}  // namespace tp::kernels

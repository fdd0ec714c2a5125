#pragma once

#include "model/kernels/paged_cache.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tp::kernels {

// What a token sees of its sequence.
struct AttentionPattern {
  // Itself and the tokens before it; otherwise those behind it in its span too.
  bool causal = true;
  // Only tokens less than `window` away.
  std::optional<std::size_t> window;
  // Of them every `dilation`-th only, counted from itself, with the window as many times wider.
  std::size_t dilation = 1;
  // The first tokens of a sequence are seen by all, and see all. (Windows with global tokens and dilation:
  // Beltagy et al., Longformer, 2020.)
  std::size_t global_tokens = 0;

  // The farthest that a token sees.
  std::optional<std::size_t> reach() const {
    return window ? std::optional((*window - 1) * dilation + 1) : std::nullopt;
  }
};

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

// Index keys: small keys in the cache, whose scores choose the positions that a token attends to.
#pragma once

#include "model/kernels/paged_cache.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace tp::kernels {

// Writes the batch's index keys, [tokens, index_dim], to the blocks that the cache owns.
void store_index_keys(TensorView<const float> key, std::span<const AttentionSpan> spans,
                      const PagedCache& cache);

struct IndexQueries {
  TensorView<const float> query;   // [tokens, heads * index_dim]
  TensorView<const float> weight;  // [tokens, heads]
};

// Floats of scratch per thread for index_scores of this many tokens.
std::size_t index_scratch(const KvLayout& layout, std::size_t tokens);

// scores(i, position) = the sum over heads of weight * max(0, query . key), in the order of heads, for all
// positions of the sequence up to the span's last token. scores: [tokens, positions], scratch: [threads,
// index_scratch()].
void index_scores(const IndexQueries& tokens, const AttentionSpan& span, const PagedCache& cache,
                  TensorView<float> scratch, TensorView<float> scores);

// The positions of the highest scores, ascending; as many as `chosen` has room for, at most all. Of equal
// scores, earlier positions are chosen first. scratch: [scores].
void choose_highest(std::span<const float> scores, std::span<float> scratch, std::span<std::int32_t> chosen);

}  // namespace tp::kernels

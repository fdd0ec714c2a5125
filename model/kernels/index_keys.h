// Index keys: small keys in the cache, whose scores choose the positions that a token attends to.
#pragma once

#include "model/kernels/paged_cache.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp::kernels {

// Writes the batch's index keys, [tokens, index_dim], to the blocks that the cache owns, for each KV head.
void store_index_keys(TensorView<const float> key, std::span<const AttentionSpan> spans,
                      const PagedCache& cache);

// The positions of a span's sequence that are in blocks that the cache owns (its first KV head). They are
// numbered in ascending order.
class OwnedPositions {
 public:
  OwnedPositions(const AttentionSpan& span, const PagedCache& cache);

  // Indices in the block table, ascending.
  std::span<const std::size_t> blocks() const { return blocks_; }
  // Number of owned positions before `position`.
  std::size_t before(std::size_t position) const;
  std::size_t position(std::size_t number) const {
    return blocks_[number / block_size_] * block_size_ + number % block_size_;
  }

 private:
  std::size_t block_size_;
  std::vector<std::size_t> blocks_;
};

struct IndexQueries {
  TensorView<const float> query;   // [tokens, heads * index_dim]
  TensorView<const float> weight;  // [tokens, heads]
  bool rectified = true;           // negative products count as 0
};

// Floats of scratch per thread for index_scores of this many tokens.
std::size_t index_scratch(const KvLayout& layout, std::size_t tokens);

// scores(i, number) = the sum over heads of weight * max(0, query . key), or of weight * (query . key) if
// products are not rectified, in the order of heads, for the owned positions up to the span's last token.
// scores: [tokens, positions], scratch: [threads, index_scratch()].
void index_scores(const IndexQueries& tokens, const AttentionSpan& span, const OwnedPositions& owned,
                  const PagedCache& cache, TensorView<float> scratch, TensorView<float> scores);

// The indices of the highest scores, ascending; as many as `chosen` has room for, at most all. Of equal
// scores, those with lower indices are chosen first. scratch: [scores].
void choose_highest(std::span<const float> scores, std::span<float> scratch, std::span<std::int32_t> chosen);

// A position and its score. It is larger for a higher score, and of equal scores, for an earlier position. 0
// stands for no position.
using ScoredPosition = std::uint64_t;

// Like choose_highest, for a list of positions and their scores, in the order of positions. Unused elements
// at the end of the list become 0. scores: of the first owned positions.
void list_highest(std::span<const float> scores, const OwnedPositions& owned, std::span<float> scratch,
                  std::span<ScoredPosition> list);

// Chooses from the lists of all owners of a sequence as choose_highest does from all scores. The lists
// contain at least as many positions as `chosen`. scratch: [elements of all lists].
void merge_highest(std::span<const std::span<const ScoredPosition>> lists, std::span<ScoredPosition> scratch,
                   std::span<std::int32_t> chosen);

}  // namespace tp::kernels

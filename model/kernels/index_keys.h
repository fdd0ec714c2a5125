// Index keys: small keys in the cache, whose scores choose the positions that a token attends to. A key
// belongs to one position, or to a pool of KvLayout::index_pool consecutive positions.
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

// Writes key number `number` of a sequence, [index_dim], to the block that has it if the cache owns this
// block, for each KV head.
void store_index_key(const float* key, std::size_t number, std::span<const std::int32_t> block_table,
                     const PagedCache& cache);

// The index keys of a span's sequence, up to the last one that the span's tokens complete, that are in blocks
// that the cache owns (its first KV head), or in wanted blocks among these. They are numbered in ascending
// order.
class OwnedKeys {
 public:
  // Keys [begin, end) of the sequence in a block.
  struct Block {
    std::size_t index = 0;  // in the block table
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t number = 0;  // owned keys before this block

    std::size_t keys() const { return end - begin; }
  };

  // `wanted`: leaves out the blocks of the block table for which it is false. Empty: leaves out none.
  OwnedKeys(const AttentionSpan& span, const PagedCache& cache, const std::vector<bool>& wanted = {});

  // Ascending.
  std::span<const Block> blocks() const { return blocks_; }
  std::size_t size() const { return size_; }
  // Number of owned keys before a key.
  std::size_t before(std::size_t key) const;
  std::size_t key(std::size_t number) const;

 private:
  std::vector<Block> blocks_;
  std::size_t size_ = 0;
};

// A position's part in a pool: each has [size] elements.
struct GatedRow {
  const float* key;
  const float* gate;
  const float* addend;  // depends on the position's place in the pool
};

// The key of a pool: for each element, the sum over the pool's rows of softmax(gate + addend) * key. out:
// [size]. Source: DeepSeek-AI, DeepSeek-V4, 2026.
void pool_by_gates(std::span<const GatedRow> rows, std::span<float> out);

struct IndexQueries {
  TensorView<const float> query;   // [tokens, heads * index_dim]
  TensorView<const float> weight;  // [tokens, heads]
  bool rectified = true;           // negative products count as 0
};

// Floats of scratch per thread for index_scores of this many tokens.
std::size_t index_scratch(const KvLayout& layout, std::size_t tokens);

// scores(i, number) = the sum over heads of weight * max(0, query . key), or of weight * (query . key) if
// products are not rectified, in the order of heads, for all owned keys. scores: [tokens, at least
// owned.size()], scratch: [threads, index_scratch()].
void index_scores(const IndexQueries& tokens, const AttentionSpan& span, const OwnedKeys& owned,
                  const PagedCache& cache, TensorView<float> scratch, TensorView<float> scores);

// The indices of the highest scores, ascending; as many as `chosen` has room for, at most all. Of equal
// scores, those with lower indices are chosen first. scratch: [scores].
void choose_highest(std::span<const float> scores, std::span<float> scratch, std::span<std::int32_t> chosen);

// A position, or a pool of positions, and its score. It is larger for a higher score, and of equal scores,
// for an earlier position. 0 stands for no position.
using ScoredPosition = std::uint64_t;

// Like choose_highest, for a list of positions (or pools) and their scores, in the order of positions. Unused
// elements at the end of the list become 0. scores: of the first owned keys.
void list_highest(std::span<const float> scores, const OwnedKeys& owned, std::span<float> scratch,
                  std::span<ScoredPosition> list);

// Chooses from the lists of all owners of a sequence as choose_highest does from all scores. The lists
// contain at least as many positions as `chosen`. scratch: [elements of all lists].
void merge_highest(std::span<const std::span<const ScoredPosition>> lists, std::span<ScoredPosition> scratch,
                   std::span<std::int32_t> chosen);

}  // namespace tp::kernels

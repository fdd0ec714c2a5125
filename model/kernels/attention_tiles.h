// Attention over one tile of query rows and one split of the cache at a time; for attention.cc and
// split_attention.cc.
#pragma once

#include "model/kernels/attention.h"
#include "model/kernels/attention_mask.h"
#include "model/kernels/attention_scratch.h"
#include "model/kernels/simd/attention/attention_tile.h"

#include <cstddef>
#include <vector>

namespace tp::kernels {

// Tokens [first, last) of a span, and the query heads [head_begin, head_end), which read one KV head.
struct Tile {
  const AttentionSpan* span;
  std::size_t kv_head;
  std::size_t head_begin;
  std::size_t head_end;
  std::size_t first;
  std::size_t last;

  std::size_t heads() const { return head_end - head_begin; }
  std::size_t rows() const { return (last - first) * heads(); }
};

// One call's tiles, and the steps to compute a tile.
class TiledAttention {
 public:
  explicit TiledAttention(const AttentionArgs& args);

  const AttentionArgs& args() const { return args_; }
  // Number of tiles of all spans, and of one.
  std::size_t tiles() const { return tiles_; }
  std::size_t tiles_of(const AttentionSpan& span) const {
    return (span.tokens + tile_tokens_ - 1) / tile_tokens_ * layout_.kv_heads;
  }
  Tile tile(std::size_t index) const;
  Tile tile_of(const AttentionSpan& span, std::size_t index) const;
  // Longest context that a token sees.
  std::size_t longest() const { return longest_; }
  bool is_worth_threads() const;

  // A row of args.scratch.
  TileScratch scratch(std::size_t row) const;
  // Sets the queries of the tile's rows, and what they see.
  void gather_rows(const Tile& tile, const TileScratch& out) const;
  // The splits of a tile's sequence that its rows may see. Split i consists of blocks_per_split blocks,
  // beginning at block i * blocks_per_split of the sequence.
  SeenSplits splits_of(const Tile& tile, const TileScratch& rows) const;
  // Computes the attention of the tile's gathered rows to split `n`, and leaves the sums in own.split. The
  // thread continues with split `next`, if it exists.
  void attend(const Tile& tile, const SeenSplits& splits, std::size_t n, std::size_t next,
              const TileScratch& own) const;
  void clear(const SoftmaxSums& sums, std::size_t rows) const;
  // Adds the sums of a split to the sums of earlier splits.
  void merge(const SoftmaxSums& part, std::size_t rows, const SoftmaxSums& sum) const;
  // Writes one row's result: the sums of all splits. `token`: row of args.out.
  void write_row(const SoftmaxSums& sum, std::size_t row, std::size_t token, std::size_t head) const;
  // Writes the results of the tile's rows.
  void write(const Tile& tile, const SoftmaxSums& sum) const;

 private:
  using Kernel = void (*)(const AttentionTile&);

  const AttentionMask& mask(const Tile& tile) const {
    return masks_[static_cast<std::size_t>(tile.span - args_.spans.data())];
  }
  void gather_query(const float* query, float* out) const;
  Places blocks_of(const Tile& tile, const TileScratch& rows) const;
  Places blocks_of_split(const Tile& tile, std::size_t split, const TileScratch& rows) const;
  Kernel kernel() const;
  bool fits_tiles() const;

  const AttentionArgs& args_;
  const KvLayout& layout_;
  Kernel kernel_;  // chosen before threads begin, because choosing may throw
  std::size_t largest_group_;
  std::vector<AttentionMask> masks_;  // one per span
  std::size_t tile_tokens_ = 1;
  std::size_t tiles_ = 0;
  std::size_t max_blocks_ = 0;
  std::size_t longest_ = 0;
  std::size_t work_ = 0;
};

}  // namespace tp::kernels

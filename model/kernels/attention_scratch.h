// Divides the work of attention into tiles, steps and splits, and lays out a tile's memory; for attention.cc.
#pragma once

#include "model/kernels/paged_cache.h"
#include "model/kernels/simd/attention/attention_tile.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tp::kernels {

// Query rows of a tile: enough to reuse keys and values while they are in the second-level cache.
inline constexpr std::size_t kTileRows = 64;
// Columns of scores in a step of the online softmax, if blocks divide it.
inline constexpr std::size_t kStepColumns = 128;
// Positions of a split. Contexts are processed in splits of about this size, which are merged in order, even
// by a single thread, so that the number of threads does not change the result.
inline constexpr std::size_t kSplitPositions = 512;

// Bytes between the data in use and the data to prefetch.
inline constexpr std::size_t kBytesAhead = 16384;

// The largest number of query heads that share a KV head, at least 1.
inline std::size_t largest_group(std::span<const std::size_t> kv_of_head) {
  std::size_t largest = 1;
  for (auto begin = kv_of_head.begin(); begin != kv_of_head.end();) {
    const auto end = std::upper_bound(begin, kv_of_head.end(), *begin);
    largest = std::max<std::size_t>(largest, end - begin);
    begin = end;
  }
  return largest;
}

inline std::size_t tokens_per_tile(std::size_t group) { return std::max<std::size_t>(1, kTileRows / group); }

// Rows for which there must be memory: a matrix unit processes 16 at a time.
inline std::size_t whole_tiles(std::size_t rows) { return (rows + 15) / 16 * 16; }

inline std::size_t blocks_per_step(const KvLayout& layout) {
  return std::max<std::size_t>(1, kStepColumns / layout.padded_block());
}

// Whole steps, because a step is never divided between two splits.
inline std::size_t blocks_per_split(const KvLayout& layout) {
  const std::size_t positions = blocks_per_step(layout) * layout.block_size;
  return std::max<std::size_t>(1, kSplitPositions / positions) * blocks_per_step(layout);
}

// Blocks between the data in use and the data to prefetch: far enough for data to arrive in time.
inline std::size_t blocks_ahead(const KvLayout& layout) {
  return std::max<std::size_t>(1, kBytesAhead / layout.head_bytes());
}

inline std::size_t step_columns(const KvLayout& layout) {
  return blocks_per_step(layout) * layout.padded_block();
}

inline std::size_t query_stride(const KvLayout& layout) {
  return layout.latent ? layout.row_columns()
                       : (layout.key_dim + KvLayout::kPanel - 1) / KvLayout::kPanel * KvLayout::kPanel;
}

// Bytes of a step's latents in float32. bf16 needs less.
inline std::size_t widened_bytes(const KvLayout& layout) {
  if (!layout.latent) return 0;
  constexpr std::size_t kWholePanels = 2 * KvLayout::kPanel;  // columns
  const std::size_t columns = (layout.row_columns() + kWholePanels - 1) / kWholePanels * kWholePanels;
  return step_columns(layout) * columns * sizeof(float);
}

inline std::size_t turned_floats(const KvLayout& layout) {
  return layout.latent ? std::min(layout.row_columns(), kTurnedColumns) * kMaxTurnedPositions : 0;
}

// Divides a thread's scratch into arrays that begin on cache lines. Without memory, only counts.
class Carver {
 public:
  explicit Carver(float* memory) : memory_(memory) {}

  template <class T>
  T* take(std::size_t count) {
    constexpr std::size_t kCacheLine = 16;  // floats
    T* const out = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + used_);
    used_ +=
        ((count * sizeof(T) + sizeof(float) - 1) / sizeof(float) + kCacheLine - 1) / kCacheLine * kCacheLine;
    return out;
  }
  std::size_t used() const { return used_; }

 private:
  float* memory_;
  std::size_t used_ = 0;
};

// Weighted sums of values, the sums of their weights, and the maxima to which the weights are relative.
struct SoftmaxSums {
  float* out;     // [rows, value_columns]
  float* maxima;  // [rows]
  float* sums;    // [rows]
};

struct TileScratch {
  float* query;
  SoftmaxSums split;  // sums of one split
  SoftmaxSums total;  // sums of all splits so far
  float* scores;
  float* slopes;
  std::uint32_t* query_pairs;
  std::uint32_t* weight_pairs;
  IntegerRow* integer_rows;
  unsigned char* widened;
  float* turned;
  std::size_t* position;
  std::size_t* visible_begin;
  std::size_t* visible_end;
  const float** bias;
  const float** key_bias;
  const unsigned char** blocks;

  TileScratch(Carver& carve, std::size_t rows, const KvLayout& layout, std::size_t max_blocks)
      : query(carve.take<float>(rows * query_stride(layout))),
        split(softmax_sums(carve, rows, layout)),
        total(softmax_sums(carve, rows, layout)),
        scores(carve.take<float>(rows * step_columns(layout))),
        slopes(carve.take<float>(rows)),
        query_pairs(carve.take<std::uint32_t>(rows * query_stride(layout) / 2)),
        weight_pairs(carve.take<std::uint32_t>(rows * step_columns(layout) / 2)),
        integer_rows(carve.take<IntegerRow>(rows)),
        widened(carve.take<unsigned char>(widened_bytes(layout))),
        turned(carve.take<float>(turned_floats(layout))),
        position(carve.take<std::size_t>(rows)),
        visible_begin(carve.take<std::size_t>(rows)),
        visible_end(carve.take<std::size_t>(rows)),
        bias(carve.take<const float*>(rows)),
        key_bias(carve.take<const float*>(rows)),
        blocks(carve.take<const unsigned char*>(max_blocks + blocks_per_step(layout))) {}

 private:
  static SoftmaxSums softmax_sums(Carver& carve, std::size_t rows, const KvLayout& layout) {
    float* const out = carve.take<float>(rows * layout.value_columns());
    float* const maxima = carve.take<float>(rows);
    return {out, maxima, carve.take<float>(rows)};
  }
};

}  // namespace tp::kernels

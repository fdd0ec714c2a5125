// The online softmax between attention's two products. For attention*_kernels.cc only: everything is local to
// the translation unit.
//
// A row has a running maximum and a sum of exponentials. If a step raises the maximum, the row's sums are
// rescaled. Source: Dao et al., FlashAttention, 2022, algorithm 1; Milakov and Gimelshein, Online normalizer,
// 2018.
#pragma once

#include "model/kernels/simd/attention/attention_tile.h"
#include "model/kernels/simd/vector/exp.h"
#include "model/kernels/simd/vector/vector.h"

#include <math.h>

namespace tp::kernels {
namespace {

inline std::size_t min(std::size_t a, std::size_t b) { return a < b ? a : b; }
inline std::size_t max(std::size_t a, std::size_t b) { return a > b ? a : b; }

// The blocks [begin, end) of a tile that form one step of the softmax.
struct Step {
  const AttentionTile& tile;
  std::size_t begin;
  std::size_t end;

  // Columns of scores in use.
  std::size_t columns() const { return (end - begin) * tile.padded_block; }
  std::size_t score_stride() const { return tile.blocks_per_step * tile.padded_block; }
  float* scores(std::size_t row, std::size_t block) const {
    return tile.scores + row * score_stride() + (block - begin) * tile.padded_block;
  }
  // Bytes from the data of a block to the data to prefetch meanwhile. Only for the first rows; 0 for other
  // rows, which find all data in the caches.
  std::ptrdiff_t ahead(std::size_t row, std::size_t block) const {
    const std::size_t further = block + tile.blocks_ahead;
    const bool is_known = row == 0 && further < tile.num_blocks + tile.next_blocks;
    return is_known ? tile.blocks[further] - tile.blocks[block] : 0;
  }
  std::size_t first_position(std::size_t block) const { return (tile.first_block + block) * tile.block_size; }
  const float* floats(std::size_t block, std::size_t offset) const {
    return reinterpret_cast<const float*>(tile.blocks[block] + offset);
  }
};

// Prefetches cache lines to the second-level cache. The first-level cache can wait for too few lines at a
// time to keep memory busy.
[[gnu::always_inline]] inline void fetch(const unsigned char* line, std::size_t lines, std::size_t distance) {
  for (std::size_t i = 0; i < lines; ++i) __builtin_prefetch(line + i * distance, 0, 2);
}

// Prefetches the scales of some panels' keys and values.
inline void fetch_scales(const Step& step, std::size_t block, std::size_t panel, std::size_t panels,
                         std::ptrdiff_t ahead) {
  const AttentionTile& tile = step.tile;
  const unsigned char* scales = tile.blocks[block] + panel * kVectorBytes + ahead;
  fetch(scales + tile.key_scales_offset, panels, kVectorBytes);
  fetch(scales + tile.value_scales_offset, panels, kVectorBytes);
}

// Whether the row may see keys of the block that are outside its window.
inline bool has_key_bias(const AttentionTile& tile, std::size_t row, std::size_t block) {
  return tile.key_bias != nullptr && tile.key_bias[row] != nullptr &&
         tile.has_key_bias[tile.first_block + block] != 0;
}

// The smallest range of a block's columns that contains all positions to which a row attends.
struct Columns {
  std::size_t begin;
  std::size_t end;
};

inline Columns visible(const Step& step, std::size_t row, std::size_t block) {
  const AttentionTile& tile = step.tile;
  const std::size_t start = step.first_position(block);
  if (has_key_bias(tile, row, block)) return {0, min(tile.context - start, tile.block_size)};
  const std::size_t end = tile.visible_end[row];
  if (end <= start) return {0, 0};
  const std::size_t begin = tile.visible_begin[row];
  if (begin >= start + tile.block_size) return {0, 0};
  return {begin > start ? begin - start : 0, min(end - start, tile.block_size)};
}

// The range for several rows together.
inline Columns visible(const Step& step, std::size_t row, std::size_t rows, std::size_t block) {
  Columns all = visible(step, row, block);
  for (std::size_t r = row + 1; r < row + rows; ++r) {
    const Columns one = visible(step, r, block);
    if (one.begin == one.end) continue;
    all = all.begin == all.end ? one : Columns{min(all.begin, one.begin), max(all.end, one.end)};
  }
  return all;
}

// Adds the row's relative biases to the scores of a block's columns `seen`.
inline void add_relative_bias(const AttentionTile& tile, std::size_t row, std::size_t start, Columns seen,
                              float* scores) {
  const float* table = tile.bias[row];
  const std::size_t reach = tile.bias_reach;
  const std::size_t own = tile.position[row];
  // The columns whose distances are inside the table; other columns use the first or last entry.
  const std::size_t from = own > reach + start ? min(own - reach - start, seen.end) : 0;
  const std::size_t to = own + reach + 1 > start ? min(own + reach + 1 - start, seen.end) : 0;
  for (std::size_t j = seen.begin; j < from; ++j) scores[j] += table[0];
  for (std::size_t j = max(from, seen.begin); j < to; ++j) scores[j] += table[start + j + reach - own];
  for (std::size_t j = max(to, seen.begin); j < seen.end; ++j) scores[j] += table[2 * reach];
}

// Caps and biases a row's scores of a block, and sets the scores of invisible keys to -infinity.
inline void mask(const Step& step, std::size_t row, std::size_t block) {
  const AttentionTile& tile = step.tile;
  float* scores = step.scores(row, block);
  const Columns seen = visible(step, row, block);
  const std::size_t start = step.first_position(block);
  if (tile.softcap != 0.0F) {
    const float inverse = 1.0F / tile.softcap;
    for (std::size_t j = seen.begin / kLanes * kLanes; j < seen.end; j += kLanes) {
      Vector capped = load(scores + j);
      for (FloatRegister& part : capped.part) part = tile.softcap * fast_tanh(part * inverse);
      store(capped, scores + j);
    }
  }
  if (tile.slopes != nullptr) {
    const float slope = tile.slopes[row];
    const float distance = static_cast<float>(start) - static_cast<float>(tile.position[row]);
    for (std::size_t j = seen.begin; j < seen.end; ++j)
      scores[j] += slope * (distance + static_cast<float>(j));
  }
  if (tile.bias != nullptr) add_relative_bias(tile, row, start, seen, scores);
  for (std::size_t j = 0; j < seen.begin; ++j) scores[j] = -INFINITY;
  for (std::size_t j = seen.end; j < tile.padded_block; ++j) scores[j] = -INFINITY;
  if (!has_key_bias(tile, row, block)) return;
  const float* key_bias = tile.key_bias[row] + start;
  for (std::size_t j = seen.begin; j < seen.end; ++j) {
    const std::size_t position = start + j;
    const bool in_window = position >= tile.visible_begin[row] && position < tile.visible_end[row];
    if (key_bias[j] != -INFINITY)
      scores[j] += key_bias[j];
    else if (!in_window)
      scores[j] = -INFINITY;
  }
}

// Whether a row attends to all of a step's positions, with scores that need no change.
inline bool sees_all(const Step& step, std::size_t row) {
  const AttentionTile& tile = step.tile;
  const std::size_t start = step.first_position(step.begin);
  return tile.block_size == tile.padded_block && tile.visible_begin[row] <= start &&
         tile.visible_end[row] >= step.first_position(step.end) && tile.softcap == 0.0F &&
         tile.slopes == nullptr && tile.bias == nullptr && tile.key_bias == nullptr;
}

// Masks a row's scores. After the last block of which the row sees anything, weights are 0. Returns the
// number of columns before.
inline std::size_t mask_blocks(const Step& step, std::size_t row) {
  const std::size_t padded = step.tile.padded_block;
  const std::size_t all = (step.end - step.begin) * padded;
  if (sees_all(step, row)) return all;
  std::size_t columns = 0;
  for (std::size_t block = step.begin; block < step.end; ++block) {
    mask(step, row, block);
    const Columns seen = visible(step, row, block);
    if (seen.begin != seen.end) columns = (block + 1 - step.begin) * padded;
  }
  float* scores = step.scores(row, step.begin);
  for (std::size_t j = columns; j < all; ++j) scores[j] = 0.0F;
  return columns;
}

inline float highest_score(const float* scores, std::size_t columns, float so_far) {
  Vector highest = broadcast(so_far);
  for (std::size_t j = 0; j < columns; j += kLanes) highest = larger(highest, load(scores + j));
  return largest_element(highest);
}

// Turns scores into weights relative to the highest score. Returns their sum.
inline float weigh(float* scores, std::size_t columns, float highest) {
  if (highest == -INFINITY) {  // the row has seen no key yet
    for (std::size_t j = 0; j < columns; ++j) scores[j] = 0.0F;
    return 0.0F;
  }
  Vector sum{};
  for (std::size_t j = 0; j < columns; j += kLanes) {
    Vector weights = load(scores + j);
    for (FloatRegister& part : weights.part) part = fast_exp(part - highest);
    store(weights, scores + j);
    sum += weights;
  }
  return sum_of_elements(sum);
}

// Rescales sums that are relative to the previous maximum.
inline void rescale_row(const AttentionTile& tile, std::size_t row, float factor) {
  tile.sums[row] *= factor;
  if (factor == 1.0F) return;
  float* out = tile.out + row * tile.value_columns;
#pragma omp simd
  for (std::size_t d = 0; d < tile.value_columns; ++d) out[d] *= factor;
}

inline void scale_weights(const Step& step, std::size_t row) {
  for (std::size_t block = step.begin; block < step.end; ++block) {
    const float* scales = step.floats(block, step.tile.value_scales_offset);
    float* weights = step.scores(row, block);
    const Columns seen = visible(step, row, block);
#pragma omp simd
    for (std::size_t j = seen.begin; j < seen.end; ++j) weights[j] *= scales[j];
  }
}

// Turns the scores of up to 16 rows into weights, relative to each row's highest score so far. Each operation
// is done for all rows before the next one, so that rows do not wait for each other's latencies.
template <class Products>
void soften(const Step& step, std::size_t row, std::size_t rows) {
  const AttentionTile& tile = step.tile;
  std::size_t columns[kLanes];
  float raised[kLanes] = {};  // previous maxima minus current maxima
  for (std::size_t r = 0; r < rows; ++r) columns[r] = mask_blocks(step, row + r);
  for (std::size_t r = 0; r < rows; ++r) {
    float& highest = tile.maxima[row + r];
    const float before = highest;
    highest = highest_score(step.scores(row + r, step.begin), columns[r], before);
    if (highest != before) raised[r] = before - highest;
  }
  Vector factors = load(raised);
  for (FloatRegister& part : factors.part) part = fast_exp(part);
  store(factors, raised);
  for (std::size_t r = 0; r < rows; ++r) {
    rescale_row(tile, row + r, raised[r]);
    tile.sums[row + r] += weigh(step.scores(row + r, step.begin), columns[r], tile.maxima[row + r]);
  }
  for (std::size_t r = 0; r < rows; ++r) {
    if constexpr (Products::Cache::kScaled) scale_weights(step, row + r);
    Products::round_weights(step, row + r);
  }
}

// Called before the first step.
inline void begin_softmax(const AttentionTile& tile) {
  for (std::size_t r = 0; r < tile.rows; ++r) {
    tile.maxima[r] = -INFINITY;
    tile.sums[r] = 0.0F;
  }
  for (std::size_t i = 0; i < tile.rows * tile.value_columns; ++i) tile.out[i] = 0.0F;
}

// Calls body(step) for all steps of a tile.
template <class Body>
void for_steps(const AttentionTile& tile, const Body& body) {
  for (std::size_t begin = 0; begin < tile.num_blocks;) {
    const std::size_t rest = tile.blocks_per_step - (tile.first_block + begin) % tile.blocks_per_step;
    const Step step{tile, begin, min(begin + rest, tile.num_blocks)};
    body(step);
    begin = step.end;
  }
}

}  // namespace
}  // namespace tp::kernels

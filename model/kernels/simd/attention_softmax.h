// The online softmax between the two products of attention: for attention*_kernels.cc only, everything is
// local to them.
//
// A row keeps its running maximum and its sum of exponentials, and rescales what it has when a step raises
// the maximum. Source: Dao et al., FlashAttention, 2022, algorithm 1; Milakov and Gimelshein, Online
// normalizer, 2018.
#pragma once

#include "model/kernels/simd/attention_tile.h"
#include "model/kernels/simd/exp.h"
#include "model/kernels/simd/vector.h"

#include <math.h>

namespace tp::kernels {
namespace {

inline std::size_t min(std::size_t a, std::size_t b) { return a < b ? a : b; }
inline std::size_t max(std::size_t a, std::size_t b) { return a > b ? a : b; }

// The blocks [begin, end) of a tile that share one step of the softmax.
struct Step {
  const AttentionTile& tile;
  std::size_t begin;
  std::size_t end;

  std::size_t score_stride() const { return tile.blocks_per_step * tile.padded_block; }
  float* scores(std::size_t row, std::size_t block) const {
    return tile.scores + row * score_stride() + (block - begin) * tile.padded_block;
  }
  std::size_t first_position(std::size_t block) const { return (tile.first_block + block) * tile.block_size; }
  const float* floats(std::size_t block, std::size_t offset) const {
    return reinterpret_cast<const float*>(tile.blocks[block] + offset);
  }
};

// Columns of a block that hold all that a row sees of it.
struct Columns {
  std::size_t begin;
  std::size_t end;
};

inline Columns visible(const Step& step, std::size_t row, std::size_t block) {
  const AttentionTile& tile = step.tile;
  const std::size_t start = step.first_position(block);
  const std::size_t end = tile.visible_end[row];
  if (end <= start) return {0, 0};
  const std::size_t begin = start < tile.global_tokens ? start : tile.visible_begin[row];
  if (begin >= start + tile.block_size) return {0, 0};
  return {begin > start ? begin - start : 0, min(end - start, tile.block_size)};
}

// Those of several rows together.
inline Columns visible(const Step& step, std::size_t row, std::size_t rows, std::size_t block) {
  Columns all = visible(step, row, block);
  for (std::size_t r = row + 1; r < row + rows; ++r) {
    const Columns one = visible(step, r, block);
    if (one.begin == one.end) continue;
    all = all.begin == all.end ? one : Columns{min(all.begin, one.begin), max(all.end, one.end)};
  }
  return all;
}

// Caps and biases a row's scores of a block, and sets those that it does not see to -infinity.
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
  for (std::size_t j = 0; j < seen.begin; ++j) scores[j] = -INFINITY;
  for (std::size_t j = seen.end; j < tile.padded_block; ++j) scores[j] = -INFINITY;
  const std::size_t stride = tile.visible_step[row];
  if (stride == 1 && start >= tile.global_tokens) return;
  const std::size_t own = tile.position[row];
  for (std::size_t j = seen.begin; j < seen.end; ++j) {
    const std::size_t position = start + j;
    const std::size_t distance = position > own ? position - own : own - position;
    const bool in_window = position >= tile.visible_begin[row] && distance % stride == 0;
    if (!in_window && position >= tile.global_tokens) scores[j] = -INFINITY;
  }
}

// Turns a row's scores into weights, relative to the greatest score so far.
template <class Products>
void soften(const Step& step, std::size_t row) {
  const AttentionTile& tile = step.tile;
  float* scores = step.scores(row, step.begin);
  std::size_t columns = 0;  // up to the last block of which it sees anything
  for (std::size_t block = step.begin; block < step.end; ++block) {
    mask(step, row, block);
    const Columns seen = visible(step, row, block);
    if (seen.begin != seen.end) columns = (block + 1 - step.begin) * tile.padded_block;
  }
  const std::size_t all_columns = (step.end - step.begin) * tile.padded_block;
  for (std::size_t j = columns; j < all_columns; ++j) scores[j] = 0.0F;
  Vector high = broadcast(tile.maxima[row]);
  for (std::size_t j = 0; j < columns; j += kLanes) raise_to(load(scores + j), high);
  const float highest = highest_lane(high);
  if (highest == -INFINITY) {  // it has seen nothing yet
    for (std::size_t j = 0; j < columns; ++j) scores[j] = 0.0F;
    Products::round_weights(tile, row);
    return;
  }
  const float rescale = tile.maxima[row] == highest ? 1.0F : fast_exp(tile.maxima[row] - highest);
  tile.maxima[row] = highest;
  Vector sum{};
  for (std::size_t j = 0; j < columns; j += kLanes) {
    Vector weights = load(scores + j);
    for (FloatRegister& part : weights.part) part = fast_exp(part - highest);
    store(weights, scores + j);
    sum += weights;
  }
  tile.sums[row] = tile.sums[row] * rescale + sum_of_lanes(sum);
  if (rescale != 1.0F) {
    float* out = tile.out + row * tile.value_columns;
#pragma omp simd
    for (std::size_t d = 0; d < tile.value_columns; ++d) out[d] *= rescale;
  }
  if constexpr (Products::Cache::kScaled) {
    for (std::size_t block = step.begin; block < step.end; ++block) {
      const float* scales = step.floats(block, tile.value_scales_offset);
      float* weights = step.scores(row, block);
      const Columns seen = visible(step, row, block);
#pragma omp simd
      for (std::size_t j = seen.begin; j < seen.end; ++j) weights[j] *= scales[j];
    }
  }
  Products::round_weights(tile, row);
}

// No row has seen anything yet.
inline void begin_softmax(const AttentionTile& tile) {
  for (std::size_t r = 0; r < tile.rows; ++r) {
    tile.maxima[r] = -INFINITY;
    tile.sums[r] = 0.0F;
  }
  for (std::size_t i = 0; i < tile.rows * tile.value_columns; ++i) tile.out[i] = 0.0F;
}

// body(step) for all steps of a tile.
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

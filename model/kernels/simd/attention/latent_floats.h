// Attention over latents in float32. A latent is a position's key, and its first columns are the value. For
// attention_kernels.cc only: everything is local to the translation unit.
//
// If a tile has many query rows, a step's latents become float32 once for all of them. Scores are computed
// for 16 positions at a time, one position per lane, from transposed latents: sums along a row would have to
// be added across lanes. A score is one sum over the columns in their order, so its bits do not depend on
// which rows and positions are computed together.
#pragma once

#include "model/kernels/simd/attention/attention_products.h"
#include "model/kernels/simd/attention/attention_softmax.h"
#include "model/kernels/simd/attention/attention_tile.h"
#include "model/kernels/simd/attention/block_fetch.h"
#include "model/kernels/simd/attention/latent_panels.h"
#include "model/kernels/simd/vector/vector.h"

#include <type_traits>

namespace tp::kernels {
namespace {

// Blocks of a step have at least 16 of its 128 columns.
constexpr std::size_t kMaxBlocksOfStep = 8;

// Adds products of transposed columns to the scores of some rows for Vectors * 16 positions.
template <std::size_t Rows, std::size_t Vectors>
void score_turned(const Step& step, std::size_t row, std::size_t first, Columns columns) {
  const AttentionTile& tile = step.tile;
  const float* query = tile.query + row * tile.query_stride;
  const float* turned = tile.turned;
  float* scores = step.scores(row, step.begin) + first;
  Vector sums[Rows][Vectors] = {};
  if (columns.begin != 0) {
    for (std::size_t r = 0; r < Rows; ++r) {
      for (std::size_t v = 0; v < Vectors; ++v)
        sums[r][v] = load(scores + r * step.score_stride() + v * kLanes);
    }
  }
  for (std::size_t column = columns.begin; column < columns.end; ++column, turned += kTurnedPositions) {
    Vector elements[Vectors];
    for (std::size_t v = 0; v < Vectors; ++v) elements[v] = load(turned + v * kLanes);
    for (std::size_t r = 0; r < Rows; ++r) {
      const float factor = query[r * tile.query_stride + column];
      for (std::size_t v = 0; v < Vectors; ++v) multiply_add(elements[v], factor, sums[r][v]);
    }
  }
  for (std::size_t r = 0; r < Rows; ++r) {
    for (std::size_t v = 0; v < Vectors; ++v)
      store(sums[r][v], scores + r * step.score_stride() + v * kLanes);
  }
}

// The runs of a step's latents that some rows see.
class SeenRuns {
 public:
  SeenRuns(const Step& step, std::size_t row, std::size_t rows) {
    const AttentionTile& tile = step.tile;
    for (std::size_t block = step.begin; block < step.end; ++block) {
      const Columns seen = visible(step, row, rows, block);
      if (seen.begin == seen.end) continue;
      const std::size_t first = (block - step.begin) * tile.padded_block;
      const bool goes_on = size_ != 0 && runs_[size_ - 1].end == first + seen.begin;
      if (!goes_on) runs_[size_++].begin = first + seen.begin;
      runs_[size_ - 1].end = first + seen.end;
    }
  }
  bool empty() const { return size_ == 0; }
  const Columns* begin() const { return runs_; }
  const Columns* end() const { return runs_ + size_; }

 private:
  Columns runs_[kMaxBlocksOfStep];
  std::size_t size_ = 0;
};

// Sums of weighted values, Vectors * 16 columns of some rows.
template <std::size_t Rows, std::size_t Vectors>
class ValueSums {
 public:
  ValueSums(const Step& step, std::size_t row, std::size_t column)
      : out_(step.tile.out + row * step.tile.value_columns + column),
        out_stride_(step.tile.value_columns),
        weights_(step.scores(row, step.begin)),
        stride_(step.score_stride()) {
    for (std::size_t r = 0; r < Rows; ++r) {
      for (std::size_t v = 0; v < Vectors; ++v) sums_[r][v] = load(out_ + r * out_stride_ + v * kLanes);
    }
  }
  [[gnu::always_inline]] void add(std::size_t latent, const Vector (&elements)[Vectors]) {
    for (std::size_t r = 0; r < Rows; ++r) {
      const float factor = weights_[r * stride_ + latent];
      for (std::size_t v = 0; v < Vectors; ++v) multiply_add(elements[v], factor, sums_[r][v]);
    }
  }
  void store_all() const {
    for (std::size_t r = 0; r < Rows; ++r) {
      for (std::size_t v = 0; v < Vectors; ++v) store(sums_[r][v], out_ + r * out_stride_ + v * kLanes);
    }
  }

 private:
  float* out_;
  std::size_t out_stride_;
  const float* weights_;
  std::size_t stride_;
  Vector sums_[Rows][Vectors];
};

// Adds weighted values from panels, which have all latents of the step.
struct FromPanels {
  const LatentPanels& panels;

  template <std::size_t Rows, std::size_t Vectors>
  void add(const SeenRuns& runs, std::size_t column, ValueSums<Rows, Vectors>& sums) const {
    const float* panel = panels.panel(column);
    for (const Columns& run : runs) {
      for (std::size_t latent = run.begin; latent < run.end; ++latent) {
        Vector elements[Vectors];
        for (std::size_t v = 0; v < Vectors; ++v)
          elements[v] = load(panel + latent * kPanelColumns + v * kLanes);
        sums.add(latent, elements);
      }
    }
  }
};

// Adds weighted values from the cache.
template <class Cache>
struct FromCache {
  StoredLatents<Cache> stored;
  std::size_t padded_block;

  template <std::size_t Rows, std::size_t Vectors>
  void add(const SeenRuns& runs, std::size_t column, ValueSums<Rows, Vectors>& sums) const {
    for (const Columns& run : runs) {
      for (std::size_t begin = run.begin; begin < run.end;) {
        const std::size_t end = min(run.end, begin / padded_block * padded_block + padded_block);
        add_block(begin, end, column, sums);
        begin = end;
      }
    }
  }

 private:
  // The latents [latent, end) are in one block.
  template <std::size_t Rows, std::size_t Vectors>
  void add_block(std::size_t latent, std::size_t end, std::size_t column,
                 ValueSums<Rows, Vectors>& sums) const {
    const unsigned char* data = stored.at(latent, column);
    const float* const scales = stored.scale(latent, column);
    const std::size_t begin = latent;
    if (latent % Cache::kStep != 0) {
      add_step<1, Cache::kStep>(data, nullptr, latent - 1, sums);
      ++latent;
      data += stored.step_bytes();
    }
    for (; latent + Cache::kStep <= end; latent += Cache::kStep, data += stored.step_bytes())
      add_step<0, Cache::kStep>(data, Cache::kScaled ? scales + (latent - begin) : nullptr, latent, sums);
    if (latent < end) add_step<0, 1>(data, nullptr, latent, sums);
  }
  // Adds the latents [first + kBegin, first + kEnd) of a step of the cache's type. Types with scales have
  // steps of one latent.
  template <std::size_t kBegin, std::size_t kEnd, std::size_t Rows, std::size_t Vectors>
  [[gnu::always_inline]] void add_step(const unsigned char* data, const float* scales, std::size_t first,
                                       ValueSums<Rows, Vectors>& sums) const {
    Vector elements[Cache::kStep][Vectors];
    for (std::size_t v = 0; v < Vectors; ++v) {
      Vector loaded[Cache::kStep];
      Cache::load(data + v * Cache::kBytes, loaded);
      scale_latents<Cache>(scales, loaded);
      for (std::size_t s = 0; s < Cache::kStep; ++s) elements[s][v] = loaded[s];
    }
    for (std::size_t s = kBegin; s < kEnd; ++s) sums.add(first + s, elements[s]);
  }
};

// Whether any of some rows may see a position of the score columns [first, first + count).
inline bool may_see(const Step& step, std::size_t row, std::size_t rows, std::size_t first,
                    std::size_t count) {
  const AttentionTile& tile = step.tile;
  if (tile.key_bias != nullptr) return true;
  const std::size_t begin = step.first_position(step.begin + first / tile.padded_block);
  const std::size_t end = step.first_position(step.begin + (first + count - 1) / tile.padded_block + 1);
  for (std::size_t r = row; r < row + rows; ++r) {
    if (tile.visible_begin[r] < end && tile.visible_end[r] > begin) return true;
  }
  return false;
}

// Calls work(integral constant of rows, first row) for all rows of a tile.
template <class Work>
void for_latent_rows(const AttentionTile& tile, const Work& work) {
  std::size_t row = 0;
  for (; row + kLatentRows <= tile.rows; row += kLatentRows)
    work(std::integral_constant<std::size_t, kLatentRows>{}, row);
  if constexpr (kLatentRows > 4) {
    for (; row + 4 <= tile.rows; row += 4) work(std::integral_constant<std::size_t, 4>{}, row);
  }
  for (; row < tile.rows; ++row) work(std::integral_constant<std::size_t, 1>{}, row);
}

// Whether a tile has so many rows that its steps are converted as a whole, for values, too. Otherwise only
// the columns that are transposed together are converted, in the first-level cache.
inline bool widens_steps(const AttentionTile& tile) { return tile.rows > 2 * kLatentRows; }

// Transposes columns of the latents [first, end), of which there are kTurnedPositions, or 16.
template <class Cache>
void turn(const Step& step, std::size_t first, std::size_t end, Columns columns) {
  const AttentionTile& tile = step.tile;
  const std::size_t vectors = (end - first) / kLanes;
  if (widens_steps(tile))
    return turn_latents(tile, LatentPanels(tile, 0, step.score_stride(), 0), first, vectors, columns);
  if constexpr (Cache::kStep == 1 && !Cache::kScaled) {
    if (tile.block_size == tile.padded_block)
      return turn_stored(tile, StoredLatents<F32>(step), first, vectors, columns);
  }
  const LatentPanels part(tile, first, kTurnedPositions, columns.begin);
  widen_latents<Cache>(step, first, end, columns, part);
  turn_latents(tile, part, first, vectors, columns);
}

// The scores of all rows for a step. Transposed columns stay in the first-level cache for all rows.
template <class Cache>
void score_latents(const Step& step, BlockFetch& fetch) {
  const AttentionTile& tile = step.tile;
  const std::size_t latents = step.columns();
  for (std::size_t first = 0; first < latents; first += kTurnedPositions) {
    const std::size_t end = min(first + kTurnedPositions, latents);
    for (std::size_t column = 0; column < tile.row_columns; column += kTurnedColumns) {
      const Columns columns = {column, min(column + kTurnedColumns, tile.row_columns)};
      turn<Cache>(step, first, end, columns);
      for_latent_rows(tile,
                      [&]<std::size_t kRows>(std::integral_constant<std::size_t, kRows>, std::size_t row) {
                        fetch.some();
                        if (!may_see(step, row, kRows, first, kTurnedPositions)) return;
                        if (end - first == kTurnedPositions)
                          score_turned<kRows, kLatentVectors>(step, row, first, columns);
                        else
                          score_turned<kRows, 1>(step, row, first, columns);
                      });
    }
  }
}

// Turns scores into weights, and adds the weighted values of a step to the sums of all rows.
template <class Values>
void add_latents(const Step& step, const Values& values, BlockFetch& fetch) {
  const AttentionTile& tile = step.tile;
  for_latent_rows(tile, [&]<std::size_t kRows>(std::integral_constant<std::size_t, kRows>, std::size_t row) {
    const SeenRuns runs(step, row, kRows);
    if (runs.empty()) return;
    soften<WidenedProducts<F32>>(step, row, kRows);
    const auto add = [&]<std::size_t kVectors>(std::integral_constant<std::size_t, kVectors>,
                                               std::size_t column) {
      fetch.some();
      ValueSums<kRows, kVectors> sums(step, row, column);
      values.add(runs, column, sums);
      sums.store_all();
    };
    std::size_t column = 0;
    for (; column + kPanelColumns <= tile.value_columns; column += kPanelColumns)
      add(std::integral_constant<std::size_t, kLatentVectors>{}, column);
    if (column < tile.value_columns) add(std::integral_constant<std::size_t, 1>{}, column);
  });
}

// Attention of all rows of a tile to latents in caches of this type.
template <class Cache>
void attend_latents(const AttentionTile& tile) {
  begin_softmax(tile);
  for_steps(tile, [&](const Step& step) {
    const LatentPanels panels(tile, 0, step.score_stride(), 0);
    const std::size_t groups = (tile.rows + kLatentRows - 1) / kLatentRows;
    const std::size_t turns = step.columns() / kTurnedPositions * (tile.row_columns / kTurnedColumns + 1);
    BlockFetch fetch(step, groups * (turns + tile.value_columns / kPanelColumns));
    if (widens_steps(tile)) widen_latents<Cache>(step, 0, step.columns(), {0, tile.row_columns}, panels);
    score_latents<Cache>(step, fetch);
    if (widens_steps(tile))
      add_latents(step, FromPanels{panels}, fetch);
    else
      add_latents(step, FromCache<Cache>{StoredLatents<Cache>(step), tile.padded_block}, fetch);
  });
}

}  // namespace
}  // namespace tp::kernels

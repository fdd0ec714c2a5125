// Attention over latents in float32. A latent is a position's key, and its first columns are the value. For
// attention_kernels.cc only: everything is local to the translation unit.
//
// A step's latents become float32 once for all query rows. Scores are computed for 16 positions at a time,
// one position per lane, from transposed latents: sums along a row would have to be added across lanes. A
// score is one sum over the columns in their order, so its bits do not depend on which rows and positions are
// computed together.
#pragma once

#include "model/kernels/simd/attention/attention_products.h"
#include "model/kernels/simd/attention/attention_softmax.h"
#include "model/kernels/simd/attention/attention_tile.h"
#include "model/kernels/simd/attention/block_fetch.h"
#include "model/kernels/simd/vector/quarters.h"
#include "model/kernels/simd/vector/vector.h"

#include <type_traits>

namespace tp::kernels {
namespace {

// Query rows that share a pass, and vectors of positions or columns of each: their sums fit in registers.
constexpr std::size_t kLatentRows = kParts > 2 ? 2 : kParts > 1 ? 4 : 8;
constexpr std::size_t kLatentVectors = kParts > 1 ? 1 : 2;
constexpr std::size_t kTurnedPositions = kLatentVectors * kLanes;
// Columns that are transposed together, a multiple of 16: their latents fit in the first-level cache.
constexpr std::size_t kTurnedColumns = 128;

// Blocks of a step have at least 16 of its 128 columns.
constexpr std::size_t kMaxBlocksOfStep = 8;

// Columns of latents that are stored together.
constexpr std::size_t kPanelColumns = kLatentVectors * kLanes;

// Some latents of a step in float32, in panels of columns: [columns / kPanelColumns][count][kPanelColumns].
// The latent of position j of block b is b * padded_block + j.
class LatentPanels {
 public:
  // Latents from `first` on, and columns from `column` on.
  LatentPanels(const AttentionTile& tile, std::size_t first, std::size_t count, std::size_t column)
      : panels_(reinterpret_cast<float*>(tile.widened)),
        stride_(count * kPanelColumns),
        first_(first),
        column_(column) {}

  // The first latent's part of the panel with this column. Latents are kPanelColumns apart.
  float* panel(std::size_t column) const { return panels_ + (column - column_) / kPanelColumns * stride_; }
  std::size_t panel_floats() const { return stride_; }
  float* at(std::size_t latent, std::size_t column) const {
    return panel(column) + (latent - first_) * kPanelColumns + column % kPanelColumns;
  }

 private:
  float* panels_;
  std::size_t stride_;
  std::size_t first_;
  std::size_t column_;
};

// Multiplies the elements of some latents by their scales.
template <class Cache>
[[gnu::always_inline]] inline void scale_latents(const float* scales, Vector (&elements)[Cache::kStep]) {
  if constexpr (Cache::kScaled) {
    for (std::size_t s = 0; s < Cache::kStep; ++s) {
      for (FloatRegister& part : elements[s].part) part = part * scales[s];
    }
  }
}

// Latents as the cache has them.
template <class Cache>
class StoredLatents {
 public:
  explicit StoredLatents(const Step& step) : step_(step) {}

  // Steps of the cache's type that are stored together are this far apart.
  std::size_t step_bytes() const { return step_.tile.row_columns / kLanes * Cache::kBytes; }
  const unsigned char* at(std::size_t latent, std::size_t column) const {
    const AttentionTile& tile = step_.tile;
    return tile.blocks[step_.begin + latent / tile.padded_block] + tile.values_offset +
           latent % tile.padded_block / Cache::kStep * step_bytes() + column / kLanes * Cache::kBytes;
  }
  // The scale of a latent's columns from `column` on. The next latents of its block follow.
  const float* scale(std::size_t latent, std::size_t column) const {
    if constexpr (!Cache::kScaled) return nullptr;
    const AttentionTile& tile = step_.tile;
    const std::size_t offset =
        column < tile.value_columns ? tile.value_scales_offset : tile.key_scales_offset;
    return step_.floats(step_.begin + latent / tile.padded_block, offset) + latent % tile.padded_block;
  }

 private:
  const Step& step_;
};

// Converts columns of the latents [first, end).
template <class Cache>
void widen_latents(const Step& step, std::size_t first, std::size_t end, Columns columns,
                   const LatentPanels& panels) {
  const AttentionTile& tile = step.tile;
  const StoredLatents<Cache> stored(step);
  for (std::size_t latent = first; latent < end; latent += Cache::kStep) {
    const std::size_t position = latent % tile.padded_block;
    if (position >= tile.block_size) continue;
    const unsigned char* const data = stored.at(latent, 0);
    const float* const value_scales = stored.scale(latent, 0);
    const float* const rest_scales = stored.scale(latent, tile.value_columns);
    float* out = panels.at(latent, columns.begin);
    for (std::size_t column = columns.begin; column < columns.end; column += kLanes) {
      Vector elements[Cache::kStep];
      Cache::load(data + column / kLanes * Cache::kBytes, elements);
      scale_latents<Cache>(column < tile.value_columns ? value_scales : rest_scales, elements);
      for (std::size_t s = 0; s < Cache::kStep; ++s) store(elements[s], out + s * kPanelColumns);
      const bool is_last_of_panel = (column + kLanes) % kPanelColumns == 0;
      out += is_last_of_panel ? panels.panel_floats() - (kPanelColumns - kLanes) : kLanes;
    }
  }
}

// Quarter q is the four floats at p + q * stride.
inline Vector load_quarters(const float* p, std::size_t stride) {
  using Four __attribute__((vector_size(16))) = float;
  const auto four = [&](std::size_t quarter) {
    Four out;
    __builtin_memcpy(&out, p + quarter * stride, sizeof(out));
    return out;
  };
  Vector out;
#if defined(__AVX512F__)
  __m512 quarters = _mm512_castps128_ps512((__m128)four(0));
  quarters = _mm512_insertf32x4(quarters, (__m128)four(1), 1);
  quarters = _mm512_insertf32x4(quarters, (__m128)four(2), 2);
  out.part[0] = (FloatRegister)_mm512_insertf32x4(quarters, (__m128)four(3), 3);
#else
  for (std::size_t i = 0; i < kParts; ++i) {
#if defined(__AVX2__)
    out.part[i] = __builtin_shufflevector(four(2 * i), four(2 * i + 1), 0, 1, 2, 3, 4, 5, 6, 7);
#else
    out.part[i] = four(i);
#endif
  }
#endif
  return out;
}

// Transposes four columns of 16 latents: out[c * kTurnedPositions + i] is column c of latent i. Latents are
// `stride` floats apart.
[[gnu::always_inline]] inline void turn_columns(const float* latents, std::size_t stride, float* out) {
  Vector rows[4];  // quarter q of rows[i] is latent 4 q + i
  for (std::size_t i = 0; i < 4; ++i) rows[i] = load_quarters(latents + i * stride, 4 * stride);
  Vector columns[4];
  for (std::size_t k = 0; k < kParts; ++k) {
    const FloatRegister low01 = shuffle_quarters<0, 4, 1, 5>(rows[0].part[k], rows[1].part[k]);
    const FloatRegister high01 = shuffle_quarters<2, 6, 3, 7>(rows[0].part[k], rows[1].part[k]);
    const FloatRegister low23 = shuffle_quarters<0, 4, 1, 5>(rows[2].part[k], rows[3].part[k]);
    const FloatRegister high23 = shuffle_quarters<2, 6, 3, 7>(rows[2].part[k], rows[3].part[k]);
    columns[0].part[k] = shuffle_quarters<0, 1, 4, 5>(low01, low23);
    columns[1].part[k] = shuffle_quarters<2, 3, 6, 7>(low01, low23);
    columns[2].part[k] = shuffle_quarters<0, 1, 4, 5>(high01, high23);
    columns[3].part[k] = shuffle_quarters<2, 3, 6, 7>(high01, high23);
  }
  for (std::size_t c = 0; c < 4; ++c) store(columns[c], out + c * kTurnedPositions);
}

// Transposes columns of `vectors` * 16 latents to tile.turned: [columns, kTurnedPositions].
inline void turn_latents(const AttentionTile& tile, const LatentPanels& panels, std::size_t first,
                         std::size_t vectors, Columns columns) {
  float* out = tile.turned;
  for (std::size_t column = columns.begin; column < columns.end; column += 4, out += 4 * kTurnedPositions) {
    for (std::size_t v = 0; v < vectors; ++v)
      turn_columns(panels.at(first + v * kLanes, column), kPanelColumns, out + v * kLanes);
  }
}
// Transposes latents of a cache of floats, whose blocks have multiples of 16 positions.
inline void turn_stored(const AttentionTile& tile, const StoredLatents<F32>& stored, std::size_t first,
                        std::size_t vectors, Columns columns) {
  for (std::size_t v = 0; v < vectors; ++v) {
    const auto* latents = reinterpret_cast<const float*>(stored.at(first + v * kLanes, 0));
    float* out = tile.turned + v * kLanes;
    for (std::size_t column = columns.begin; column < columns.end; column += 4, out += 4 * kTurnedPositions)
      turn_columns(latents + column, tile.row_columns, out);
  }
}

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

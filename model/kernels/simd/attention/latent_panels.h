// Latents in float32: converted to panels, and transposed. For attention_kernels.cc only: everything is local
// to the translation unit.
#pragma once

#include "model/kernels/simd/attention/attention_products.h"
#include "model/kernels/simd/attention/attention_softmax.h"
#include "model/kernels/simd/attention/attention_tile.h"
#include "model/kernels/simd/vector/quarters.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

// Query rows that share a pass, and vectors of positions or columns of each: their sums fit in registers.
constexpr std::size_t kLatentRows = kParts > 2 ? 2 : kParts > 1 ? 4 : 8;
constexpr std::size_t kLatentVectors = kParts > 1 ? 1 : 2;
constexpr std::size_t kTurnedPositions = kLatentVectors * kLanes;

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

}  // namespace
}  // namespace tp::kernels

// Attention over an int8 cache by integer products, for processors that multiply bytes. For
// attention_kernels.cc only: everything is local to the translation unit.
//
// Queries and weights become 16-bit numbers in units of each row, split into two bytes. Each of these bytes
// is multiplied by bytes of the cache, so that no element of the cache is widened. The unit of a row's
// weights holds for one step.
#pragma once

#include "model/kernels/simd/attention/attention_products.h"
#include "model/kernels/simd/attention/attention_softmax.h"

namespace tp::kernels {
namespace {

#if defined(__AVX512VNNI__)

// The largest numbers: signed bytes 127 and 0 for queries, two unsigned bytes for weights.
constexpr float kMaxQuery = 127 * 256;
constexpr float kMaxWeight = 65535;

inline IntVector to_whole(const Vector& x, float factor) {
  return {(IntRegister)_mm512_maskz_cvtps_epi32(0xffff, (__m512)(x.part[0] * factor))};
}
inline void store_low_bytes(const IntRegister& x, void* p) {
  const __m128i bytes = _mm512_maskz_cvtepi32_epi8(0xffff, (__m512i)x);
  __builtin_memcpy(p, &bytes, sizeof(bytes));
}
inline Vector to_floats(const IntVector& x) { return {__builtin_convertvector(x.part[0], FloatRegister)}; }

// A row has all high bytes, then all low bytes.
inline std::int8_t* query_bytes(const AttentionTile& tile, std::size_t row) {
  return reinterpret_cast<std::int8_t*>(tile.query_pairs + row * tile.query_stride / 2);
}
inline std::uint8_t* weight_bytes(const Step& step, std::size_t row) {
  return reinterpret_cast<std::uint8_t*>(step.tile.weight_pairs + row * step.score_stride() / 2);
}

inline void query_to_bytes(const AttentionTile& tile, std::size_t row) {
  const float* query = tile.query + row * tile.query_stride;
  Vector greatest{};
  Vector zeros{};
  for (std::size_t d = 0; d < tile.query_stride; d += kLanes) {
    greatest = larger(magnitude(load(query + d)), greatest);
    multiply_add(load(query + d), 0.0F, zeros);
  }
  const float max = largest_element(greatest);
  // Queries with NaN or infinity have no bytes, but must make the scores NaN. Queries whose unit is too small
  // to have an inverse get scores of 0.
  const float nothing = sum_of_elements(zeros);
  const bool has_bytes = nothing == 0.0F && max > kMaxQuery * 0x1p-120F;
  const float inverse = has_bytes ? kMaxQuery / max : 0.0F;
  std::int8_t* high = query_bytes(tile, row);
  IntVector sum_of_high{};
  IntVector sum_of_low{};
  for (std::size_t d = 0; d < tile.query_stride; d += kLanes) {
    const IntRegister whole = has_bytes ? to_whole(load(query + d), inverse).part[0] : IntRegister{};
    const IntRegister low = (IntRegister)((WordRegister)whole << 24) >> 24;
    store_low_bytes((whole - low) >> 8, high + d);
    store_low_bytes(low, high + tile.query_stride + d);
    sum_of_high += {(whole - low) >> 8};
    sum_of_low += {low};
  }
  tile.integer_rows[row] = {.query_unit = max / kMaxQuery + nothing,
                            .sum_of_high = static_cast<std::int32_t>(sum_of_elements(to_floats(sum_of_high))),
                            .sum_of_low = static_cast<std::int32_t>(sum_of_elements(to_floats(sum_of_low))),
                            .weight_unit = 0.0F};
}

struct IntegerProducts {
  using Cache = Int8;
  static constexpr bool kInIntegers = true;

  static void round_query(const AttentionTile& tile) {
    for (std::size_t r = 0; r < tile.rows; ++r) query_to_bytes(tile, r);
  }
  static void round_weights(const Step& step, std::size_t row) {
    const float* weights = step.scores(row, step.begin);
    const float max = highest_score(weights, step.columns(), 0.0F);
    const float factor = max > 0.0F ? kMaxWeight / max : 0.0F;
    std::uint8_t* high = weight_bytes(step, row);
    Vector zeros{};
    for (std::size_t j = 0; j < step.columns(); j += kLanes) {
      const Vector some = load(weights + j);
      const IntRegister whole = to_whole(some, factor).part[0];
      store_low_bytes(whole >> 8, high + j);
      store_low_bytes(whole, high + step.columns() + j);
      multiply_add(some, 0.0F, zeros);
    }
    // NaN if a weight is not finite.
    step.tile.integer_rows[row].weight_unit = max / kMaxWeight + sum_of_elements(zeros);
  }
};

// sum[i] += a[4i..4i+3] . b[4i..4i+3]. The bytes of a are unsigned, those of b signed.
inline void add_dots(const WordVector& a, const WordVector& b, IntVector& sum) {
  sum.part[0] =
      (IntRegister)_mm512_dpbusd_epi32((__m512i)sum.part[0], (__m512i)a.part[0], (__m512i)b.part[0]);
}
inline WordVector four_times(const void* p) {
  std::uint32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return {WordRegister{} + four};
}

// Sums of products with high bytes and with low bytes.
template <std::size_t Rows, std::size_t Vectors>
struct HalfSums {
  IntVector high[Rows][Vectors];
  IntVector low[Rows][Vectors];

  Vector whole(std::size_t row, std::size_t vector) const {
    Vector sum = to_floats(low[row][vector]);
    multiply_add(to_floats(high[row][vector]), 256.0F, sum);
    return sum;
  }
};

template <std::size_t Rows, std::size_t Panels>
void score_integers(const Step& step, std::size_t row, std::size_t block, std::size_t panel) {
  const AttentionTile& tile = step.tile;
  const unsigned char* keys = tile.blocks[block] + panel * tile.key_panel_bytes;
  const std::int8_t* query = query_bytes(tile, row);
  const std::ptrdiff_t ahead = step.ahead(row, block);
  if (ahead != 0) fetch_scales(step, block, panel, Panels, ahead);
  HalfSums<Rows, Panels> sums;
  // Keys are multiplied as unsigned bytes, which are 128 too large.
#pragma GCC unroll 4
  for (std::size_t r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (std::size_t p = 0; p < Panels; ++p) {
      sums.high[r][p] = broadcast(-128 * tile.integer_rows[row + r].sum_of_high);
      sums.low[r][p] = broadcast(-128 * tile.integer_rows[row + r].sum_of_low);
    }
  }
  for (std::size_t d = 0; d < tile.key_dim; d += Int8::kStep, keys += kVectorBytes, query += Int8::kStep) {
    if (ahead != 0) fetch(keys + ahead, Panels, tile.key_panel_bytes);
    WordVector quads[Panels];
#pragma GCC unroll 4
    for (std::size_t p = 0; p < Panels; ++p)
      quads[p] = {load_words(keys + p * tile.key_panel_bytes).part[0] ^ 0x80808080U};
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Rows; ++r) {
      const WordVector high = four_times(query + r * 2 * tile.query_stride);
      const WordVector low = four_times(query + (r * 2 + 1) * tile.query_stride);
#pragma GCC unroll 4
      for (std::size_t p = 0; p < Panels; ++p) {
        add_dots(quads[p], high, sums.high[r][p]);
        add_dots(quads[p], low, sums.low[r][p]);
      }
    }
  }
#pragma GCC unroll 4
  for (std::size_t p = 0; p < Panels; ++p) {
    const Vector scales = load(step.floats(block, tile.key_scales_offset) + (panel + p) * kLanes);
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Rows; ++r) {
      const Vector score = {sums.whole(r, p).part[0] *
                            (scales.part[0] * tile.integer_rows[row + r].query_unit)};
      store(score, step.scores(row + r, block) + (panel + p) * kLanes);
    }
  }
}

// Adds the weighted values of a step, for some vectors of columns.
template <std::size_t Rows, std::size_t Vectors>
void add_integers(const Step& step, std::size_t row, std::size_t column) {
  const AttentionTile& tile = step.tile;
  const std::size_t stride = 2 * step.score_stride();
  HalfSums<Rows, Vectors> sums{};
  for (std::size_t block = step.begin; block < step.end; ++block) {
    const Columns seen = visible(step, row, Rows, block);
    const std::size_t begin = seen.begin / Int8::kStep * Int8::kStep;
    const std::ptrdiff_t ahead = step.ahead(row, block);
    const std::uint8_t* weights = weight_bytes(step, row) + (block - step.begin) * tile.padded_block + begin;
    const unsigned char* values =
        tile.blocks[block] + tile.values_offset + begin * tile.row_columns + column * Int8::kStep;
    for (std::size_t j = begin; j < seen.end;
         j += Int8::kStep, values += Int8::kStep * tile.row_columns, weights += Int8::kStep) {
      if (ahead != 0) fetch(values + ahead, Vectors, kVectorBytes);
      WordVector quads[Vectors];
#pragma GCC unroll 4
      for (std::size_t v = 0; v < Vectors; ++v) quads[v] = load_words(values + v * kVectorBytes);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < Rows; ++r) {
        const WordVector high = four_times(weights + r * stride);
        const WordVector low = four_times(weights + r * stride + step.columns());
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) {
          add_dots(high, quads[v], sums.high[r][v]);
          add_dots(low, quads[v], sums.low[r][v]);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < Rows; ++r) {
    float* out = tile.out + (row + r) * tile.value_columns + column;
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v) {
      Vector sum = load(out + v * kLanes);
      multiply_add(sums.whole(r, v), tile.integer_rows[row + r].weight_unit, sum);
      store(sum, out + v * kLanes);
    }
  }
}

template <std::size_t Rows>
void score_block(const Step& step, std::size_t row, std::size_t block) {
  const std::size_t panels = step.tile.padded_block / kLanes;
  std::size_t panel = 0;
  for (; panel + 2 <= panels; panel += 2) score_integers<Rows, 2>(step, row, block, panel);
  if (panel < panels) score_integers<Rows, 1>(step, row, block, panel);
}

template <std::size_t Rows>
void add_step(const Step& step, std::size_t row) {
  const std::size_t columns = step.tile.value_columns;
  std::size_t column = 0;
  for (; column + 2 * kLanes <= columns; column += 2 * kLanes) add_integers<Rows, 2>(step, row, column);
  if (column < columns) add_integers<Rows, 1>(step, row, column);
}

#else

// Without integer products. These functions are never called.
template <std::size_t Rows>
void score_block(const Step& step, std::size_t row, std::size_t block);
template <std::size_t Rows>
void add_step(const Step& step, std::size_t row);

#endif

}  // namespace
}  // namespace tp::kernels

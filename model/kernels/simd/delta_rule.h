// The inner loops of recurrences that are computed from anchors, for simd_kernels.cc. Each number is one sum
// in a fixed order, however many rows are computed together.
#pragma once

#include "model/kernels/simd/simd.h"
#include "model/kernels/simd/vector/quarters.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

// Vectors of sums that are kept in registers.
constexpr std::size_t kScanSums = kParts == 1 ? 16 : kParts == 2 ? 4 : 2;

// Calls block(first) for whole blocks of kBlock of [first, count), and returns the first that is in none.
template <std::size_t kBlock, class Block>
inline std::size_t for_blocks(std::size_t first, std::size_t count, const Block& block) {
  for (; first + kBlock <= count; first += kBlock) block(first);
  return first;
}

// Sums of kRows rows in kVectors vectors of columns. Rows of the left are floats apart by `stride`.
template <std::size_t kRows, std::size_t kVectors>
[[gnu::always_inline]] inline void add_row_products(const ScanProducts& p, std::size_t row,
                                                    std::size_t column, Vector (&sums)[kRows][kVectors]) {
  const float* right = p.right + column;
  const float* left = p.left + row * p.left_stride;
  for (std::size_t i = 0; i < p.inner; ++i, right += p.right_stride, ++left) {
    Vector columns[kVectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) columns[v] = load(right + v * kLanes);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kVectors; ++v)
        multiply_add(columns[v], left[r * p.left_stride], sums[r][v]);
    }
  }
}

template <std::size_t kRows, std::size_t kVectors>
inline void multiply_block(const ScanProducts& p, std::size_t row, std::size_t column) {
  Vector sums[kRows][kVectors] = {};
  const auto place = [&](std::size_t r, std::size_t v) {
    return p.out + (row + r) * p.out_stride + column + v * kLanes;
  };
  if (p.adds) {
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = load(place(r, v));
    }
  }
  add_row_products(p, row, column, sums);
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t v = 0; v < kVectors; ++v) store(sums[r][v], place(r, v));
  }
}

template <std::size_t kVectors>
inline void multiply_columns(const ScanProducts& p, std::size_t column) {
  std::size_t row = 0;
  if constexpr (kScanSums >= 8 * kVectors)
    row = for_blocks<8>(row, p.rows, [&](std::size_t r) { multiply_block<8, kVectors>(p, r, column); });
  if constexpr (kScanSums >= 4 * kVectors)
    row = for_blocks<4>(row, p.rows, [&](std::size_t r) { multiply_block<4, kVectors>(p, r, column); });
  row = for_blocks<2>(row, p.rows, [&](std::size_t r) { multiply_block<2, kVectors>(p, r, column); });
  if (row < p.rows) multiply_block<1, kVectors>(p, row, column);
}

// A single token has two rows, whose sums would wait for each other in few vectors. Wide blocks also read the
// matrix in order.
void scan_products(const ScanProducts& p) {
  std::size_t column = 0;
  if (p.rows <= 2) {
    constexpr std::size_t kWide = kScanSums / 2;
    column =
        for_blocks<kWide * kLanes>(column, p.columns, [&](std::size_t c) { multiply_columns<kWide>(p, c); });
  } else if constexpr (kParts == 1) {
    column = for_blocks<2 * kLanes>(column, p.columns, [&](std::size_t c) { multiply_columns<2>(p, c); });
  }
  for_blocks<kLanes>(column, p.columns, [&](std::size_t c) { multiply_columns<1>(p, c); });
}

// The sum of the elements of each of 16 vectors, all in the same order.
inline Vector scan_totals(const Vector (&v)[kLanes]) {
  const auto plus = [](const Vector& a, const Vector& b) {
    Vector sum = a;
    sum += b;
    return sum;
  };
  Vector quarters[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const Vector four[4] = {v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]};
    quarters[i] = best_in_quarters(four, plus);
  }
  return best_of_quarters(quarters, plus);
}

// Products of kRows rows and kLanes / kRows keys; keys after the last one are the last one.
template <std::size_t kRows>
inline void dot_block(const ScanDots& d, std::size_t row, std::size_t first) {
  constexpr std::size_t kKeys = kLanes / kRows;
  const float* keys[kKeys];
  for (std::size_t k = 0; k < kKeys; ++k) keys[k] = d.keys[first + k < d.count ? first + k : d.count - 1];
  const float* const rows = d.rows + row * d.stride;
  Vector sums[kLanes] = {};
  for (std::size_t i = 0; i < d.size; i += kLanes) {
    Vector own[kRows];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) own[r] = load(rows + r * d.stride + i);
#pragma GCC unroll 8
    for (std::size_t k = 0; k < kKeys; ++k) {
      const Vector key = load(keys[k] + i);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) multiply_add(own[r], key, sums[r * kKeys + k]);
    }
  }
  float totals[kLanes];
  store(scan_totals(sums), totals);
  for (std::size_t r = 0; r < kRows; ++r) {
    float* const out = d.out + (row + r) * d.out_stride + first;
    for (std::size_t k = 0; k < kKeys && first + k < d.count; ++k) out[k] = totals[r * kKeys + k];
  }
}

void scan_dots(const ScanDots& d) {
  const auto block = [&]<std::size_t kRows>(std::size_t row) {
    for (std::size_t first = 0; first < d.count; first += kLanes / kRows) dot_block<kRows>(d, row, first);
  };
  const std::size_t row =
      for_blocks<4>(0, d.num_rows, [&](std::size_t r) { block.template operator()<4>(r); });
  const std::size_t last =
      for_blocks<2>(row, d.num_rows, [&](std::size_t r) { block.template operator()<2>(r); });
  if (last < d.num_rows) block.template operator()<1>(last);
}

// From the last key to the first: the products of both rows, then the rows fade by the key's decays.
void scan_faded_dots(const ScanDots& d, const float* const* decays) {
  for (std::size_t last = d.count; last > 0;) {
    constexpr std::size_t kKeys = kLanes / 2;
    const std::size_t keys = last < kKeys ? last : kKeys;
    Vector sums[kLanes] = {};
    for (std::size_t k = 0; k < keys; ++k) {
      const float* const key = d.keys[last - 1 - k];
      const float* const decay = decays[last - 1 - k];
      for (std::size_t i = 0; i < d.size; i += kLanes) {
        const Vector fade = load(decay + i);
        for (std::size_t r = 0; r < 2; ++r) {
          Vector row = load(d.rows + r * d.stride + i);
          multiply_add(row, load(key + i), sums[r * kKeys + k]);
          for (std::size_t p = 0; p < kParts; ++p) row.part[p] *= fade.part[p];
          store(row, d.rows + r * d.stride + i);
        }
      }
    }
    float totals[kLanes];
    store(scan_totals(sums), totals);
    for (std::size_t r = 0; r < 2; ++r) {
      for (std::size_t k = 0; k < keys; ++k) d.out[r * d.out_stride + last - 1 - k] = totals[r * kKeys + k];
    }
    last -= keys;
  }
}

// Loads `count` floats, padded with zeros to a vector.
inline Vector load_some(const float* from, std::size_t count) {
  if (count >= kLanes) return load(from);
  float values[kLanes] = {};
  for (std::size_t i = 0; i < count; ++i) values[i] = from[i];
  return load(values);
}
inline void store_some(const Vector& from, std::size_t count, float* to) {
  if (count >= kLanes) return store(from, to);
  float values[kLanes];
  store(from, values);
  for (std::size_t i = 0; i < count; ++i) to[i] = values[i];
}

template <bool kCorrects, std::size_t kVectors>
inline void add_token(const ScanToken& t, std::size_t column) {
  Vector known[kVectors] = {};
  Vector seen[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    if constexpr (kCorrects) known[v] = load(t.known + column + v * kLanes);
    seen[v] = load(t.seen + column + v * kLanes);
  }
  for (std::size_t i = 0; i < t.tokens; ++i) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const Vector addition = load(t.additions[i] + column + v * kLanes);
      if constexpr (kCorrects) multiply_add(addition, t.known_weights[i], known[v]);
      multiply_add(addition, t.seen_weights[i], seen[v]);
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) {
    const std::size_t first = column + v * kLanes;
    Vector own = load_some(t.value + first, t.columns - first);
    for (std::size_t p = 0; p < kParts; ++p) own.part[p] = (own.part[p] - known[v].part[p]) * t.strength;
    store(own, t.additions[t.tokens] + first);
    multiply_add(own, t.seen_weights[t.tokens], seen[v]);
    store_some(seen[v], t.columns - first, t.out + first);
  }
}

template <bool kCorrects>
inline void add_token(const ScanToken& t) {
  constexpr std::size_t kVectors = kScanSums / 4 < 1 ? 1 : kScanSums / 4;
  const std::size_t column = for_blocks<kVectors * kLanes>(
      0, t.columns, [&](std::size_t c) { add_token<kCorrects, kVectors>(t, c); });
  for (std::size_t c = column; c < t.columns; c += kLanes) add_token<kCorrects, 1>(t, c);
}

void scan_token(const ScanToken& token) {
  token.known != nullptr ? add_token<true>(token) : add_token<false>(token);
}

// Rows of the matrix, four or one at a time.
template <std::size_t kRows>
inline void advance_rows(const ScanAnchor& a, std::size_t row, std::size_t column) {
  Vector sums[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    sums[r] = load(a.matrix + (row + r) * a.stride + column);
    for (FloatRegister& part : sums[r].part) part *= a.decay[row + r];
  }
  for (std::size_t i = 0; i < a.tokens; ++i) {
    const Vector addition = load(a.additions[i] + column);
    const float* const key = a.keys + i * a.key_stride + row;
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) multiply_add(addition, key[r], sums[r]);
  }
  for (std::size_t r = 0; r < kRows; ++r) store(sums[r], a.matrix + (row + r) * a.stride + column);
}

void scan_anchor(const ScanAnchor& a) {
  constexpr std::size_t kRows = kScanSums < 8 ? kScanSums : 8;
  for (std::size_t column = 0; column < a.columns; column += kLanes) {
    const std::size_t row =
        for_blocks<kRows>(0, a.rows, [&](std::size_t r) { advance_rows<kRows>(a, r, column); });
    for (std::size_t r = row; r < a.rows; ++r) advance_rows<1>(a, r, column);
  }
}

}  // namespace
}  // namespace tp::kernels

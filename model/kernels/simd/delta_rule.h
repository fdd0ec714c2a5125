// The inner loops of recurrences that are computed from anchors, for simd_kernels.cc. Each number is one sum
// in a fixed order, however many rows are computed together.
#pragma once

#include "model/kernels/simd/simd.h"
#include "model/kernels/simd/vector/partial.h"
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

// Products of kRows rows and kLanes / kRows keys of [first, count); keys after the last one are the last one.
template <std::size_t kRows>
inline void dot_block(const ScanDots& d, std::size_t row, std::size_t first, std::size_t count) {
  constexpr std::size_t kKeys = kLanes / kRows;
  const float* keys[kKeys];
  for (std::size_t k = 0; k < kKeys; ++k) keys[k] = d.keys[first + k < count ? first + k : count - 1];
  Vector sums[kLanes] = {};
  for (std::size_t i = 0; i < d.size; i += kLanes) {
    Vector own[kRows];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) own[r] = load(d.rows[row + r] + i);
#pragma GCC unroll 8
    for (std::size_t k = 0; k < kKeys; ++k) {
      const Vector key = load(keys[k] + i);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) multiply_add(own[r], key, sums[r * kKeys + k]);
    }
  }
  float totals[kLanes];
  store(scan_totals(sums), totals);
  const std::size_t written = count - first < kKeys ? count - first : kKeys;
  for (std::size_t r = 0; r < kRows; ++r) {
    float* const out = d.out[row + r] + first;
    if (written == kKeys) {
      __builtin_memcpy(out, totals + r * kKeys, kKeys * sizeof(float));
    } else {
      for (std::size_t k = 0; k < written; ++k) out[k] = totals[r * kKeys + k];
    }
  }
}

template <std::size_t kRows>
inline void dot_rows(const ScanDots& d, std::size_t row) {
  const std::size_t later = d.num_rows - row - kRows;  // rows
  const std::size_t count = d.count - later / d.rows_per_key;
  for (std::size_t first = 0; first < count; first += kLanes / kRows) dot_block<kRows>(d, row, first, count);
}

void scan_dots(const ScanDots& d) {
  std::size_t row = for_blocks<4>(0, d.num_rows, [&](std::size_t r) { dot_rows<4>(d, r); });
  row = for_blocks<2>(row, d.num_rows, [&](std::size_t r) { dot_rows<2>(d, r); });
  if (row < d.num_rows) dot_rows<1>(d, row);
}

inline void multiply(Vector& v, const Vector& by) {
  for (std::size_t p = 0; p < kParts; ++p) v.part[p] *= by.part[p];
}

void scan_faded_dots(const ScanFadedDots& d) {
  constexpr std::size_t kKeys = kLanes / 2;
  for (std::size_t last = d.count; last > 0;) {
    const std::size_t keys = last < kKeys ? last : kKeys;
    Vector sums[kLanes] = {};
    for (std::size_t i = 0; i < d.size; i += kLanes) {
      Vector rows[2] = {load(d.rows + i), load(d.rows + d.stride + i)};
#pragma GCC unroll 8
      for (std::size_t k = 0; k < kKeys; ++k) {
        if (k == keys) break;
        const Vector key = load(d.keys[last - 1 - k] + i);
        const Vector decay = load(d.decays[last - 1 - k] + i);
#pragma GCC unroll 2
        for (std::size_t r = 0; r < 2; ++r) {
          multiply_add(rows[r], key, sums[r * kKeys + k]);
          multiply(rows[r], decay);
        }
      }
      for (std::size_t r = 0; r < 2; ++r) store(rows[r], d.rows + r * d.stride + i);
    }
    float totals[kLanes];
    store(scan_totals(sums), totals);
    for (std::size_t r = 0; r < 2; ++r) {
      for (std::size_t k = 0; k < keys; ++k) d.out[r * d.out_stride + last - 1 - k] = totals[r * kKeys + k];
    }
    last -= keys;
  }
}

void scan_faded_keys(const ScanFadedKeys& f) {
  for (std::size_t i = 0; i < f.size; i += kLanes) {
    Vector fade = broadcast(1.0F);
    for (std::size_t k = f.count; k-- > 0;) {
      Vector key = load(f.keys[k] + i);
      multiply(key, fade);
      store(key, f.out + k * f.stride + i);
      multiply(fade, load(f.decays[k] + i));
    }
    store(fade, f.all_decays + i);
  }
}

// From the later tokens to the earlier ones.
void scan_weights(const ScanWeights& w) {
  float fade = 1.0F;
  for (std::size_t k = w.token + 1; k-- > 0; fade *= w.decays[k]) {
    for (std::size_t r = 0; r < w.num_rows; ++r)
      w.weights[r * kScanTokens + k] = w.dots[r * kScanTokens + k] * fade;
  }
  for (std::size_t r = 0; r < w.num_rows; ++r) {
    float* const faded = w.faded_rows + r * w.stride;
#pragma omp simd
    for (std::size_t i = 0; i < w.size; ++i) faded[i] = w.rows[r][i] * fade;
  }
}

// The tokens [first, first + kTokens) in kVectors vectors of columns. Sums stay in registers.
template <bool kCorrects, std::size_t kTokens, std::size_t kVectors>
class TokenGroup {
 public:
  TokenGroup(const ScanTokens& tokens, std::size_t first, std::size_t column)
      : t_(tokens), first_(first), column_(column) {}

  [[gnu::always_inline]] void compute() {
    multiply_matrix();
    const std::size_t since = t_.since + first_;
    for (std::size_t i = 0; i < since; ++i) add(i, load_columns(t_.additions[i] + column_));
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kTokens; ++i) finish(i);
  }

 private:
  static constexpr std::size_t kPerToken = kCorrects ? 2 : 1;
  static constexpr std::size_t kRows = kTokens * kPerToken;
  static constexpr std::size_t kQuery = kPerToken - 1;  // row of a token's query
  struct Columns {
    Vector v[kVectors];
  };

  [[gnu::always_inline]] static Columns load_columns(const float* from) {
    Columns columns;
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) columns.v[v] = load(from + v * kLanes);
    return columns;
  }
  [[gnu::always_inline]] void add_to(std::size_t row, const Columns& columns, float weight) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) multiply_add(columns.v[v], weight, sums_[row][v]);
  }

  [[gnu::always_inline]] void multiply_matrix() {
    const float* rows[kRows];
    for (std::size_t r = 0; r < kRows; ++r) rows[r] = t_.rows + (first_ * kPerToken + r) * t_.row_stride;
    const float* matrix = t_.matrix + column_;
    for (std::size_t i = 0; i < t_.inner; ++i, matrix += t_.stride) {
      const Columns columns = load_columns(matrix);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) add_to(r, columns, rows[r][i]);
    }
  }

  // An earlier token's addition.
  [[gnu::always_inline]] void add(std::size_t i, const Columns& addition) {
    const float* const weights = t_.weights + first_ * kPerToken * kScanTokens + i;
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) add_to(r, addition, weights[r * kScanTokens]);
  }

  // All earlier additions are included in the sums.
  [[gnu::always_inline]] void finish(std::size_t i) {
    const std::size_t token = first_ + i;
    const std::size_t place = t_.since + token;
    const float* const weights = t_.weights + first_ * kPerToken * kScanTokens + place;
    Columns own;
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t first = column_ + v * kLanes;
      own.v[v] = load_some(t_.values[token] + first, t_.columns - first);
      for (std::size_t p = 0; p < kParts; ++p) {
        if constexpr (kCorrects) own.v[v].part[p] -= sums_[i * kPerToken][v].part[p];
        own.v[v].part[p] *= t_.strengths[token];
      }
      store(own.v[v], t_.additions[place] + first);
    }
    add_to(i * kPerToken + kQuery, own, weights[(i * kPerToken + kQuery) * kScanTokens]);
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t first = column_ + v * kLanes;
      store_some(sums_[i * kPerToken + kQuery][v], t_.columns - first, t_.out[token] + first);
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      if (r >= (i + 1) * kPerToken) add_to(r, own, weights[r * kScanTokens]);
    }
  }

  const ScanTokens& t_;
  std::size_t first_;
  std::size_t column_;
  Vector sums_[kRows][kVectors] = {};
};

// Prefetches rows a few at a time, between computations, because many at once would stall the processor.
class Prefetches {
 public:
  // `times`: how often run() is called.
  Prefetches(const ScanRow* rows, std::size_t count, std::size_t times)
      : row_(rows), end_(rows + count), share_(count / (times < 1 ? 1 : times) + 1) {}

  void run() {
    for (std::size_t i = 0; i < share_ && row_ < end_; ++i, ++row_) {
      for (std::size_t j = 0; j < row_->size; j += kLanes) __builtin_prefetch(row_->begin + j, 0, 2);
    }
  }

 private:
  const ScanRow* row_;
  const ScanRow* end_;
  std::size_t share_;
};

template <bool kCorrects, std::size_t kTokens, std::size_t kVectors>
void scan_group(const ScanTokens& t, std::size_t first, std::size_t column) {
  TokenGroup<kCorrects, kTokens, kVectors>(t, first, column).compute();
}

template <bool kCorrects, std::size_t kVectors>
constexpr std::size_t tokens_of_group() {
  constexpr std::size_t kSums = kScanSums / (kCorrects ? 2 : 1) / kVectors;
  return kSums < 1 ? 1 : kSums < 8 ? kSums : 8;
}

// Groups of as many tokens as registers have sums for, then single tokens.
template <bool kCorrects, std::size_t kVectors>
void scan_columns(const ScanTokens& t, std::size_t column, Prefetches& prefetches) {
  constexpr std::size_t kTokens = tokens_of_group<kCorrects, kVectors>();
  const std::size_t first = for_blocks<kTokens>(0, t.tokens, [&](std::size_t i) {
    prefetches.run();
    scan_group<kCorrects, kTokens, kVectors>(t, i, column);
  });
  if constexpr (kTokens > 1)
    for_blocks<1>(first, t.tokens, [&](std::size_t i) { scan_group<kCorrects, 1, kVectors>(t, i, column); });
}

// Columns in strips of kVectors vectors, and the rest in narrower ones.
template <bool kCorrects, std::size_t kVectors>
void scan_strips(const ScanTokens& t, std::size_t column) {
  constexpr std::size_t kColumns = kVectors * kLanes;
  constexpr std::size_t kTokens = tokens_of_group<kCorrects, kVectors>();
  Prefetches prefetches(t.next, t.num_next, t.tokens / kTokens * (t.stored_columns / kColumns));
  column = for_blocks<kColumns>(column, t.stored_columns,
                                [&](std::size_t c) { scan_columns<kCorrects, kVectors>(t, c, prefetches); });
  if constexpr (kVectors > 1) scan_strips<kCorrects, kVectors / 2>(t, column);
}

// A single token has few sums in narrow strips, so they would wait for each other. Wide strips also read the
// matrix in order.
template <bool kCorrects>
void scan_tokens(const ScanTokens& t) {
  constexpr std::size_t kWidest = kScanSums / (kCorrects ? 2 : 1);
  constexpr std::size_t kWide = kWidest < 8 ? kWidest : 8;
  if (t.tokens == 1) return scan_strips<kCorrects, kWide>(t, 0);
  scan_strips<kCorrects, kParts == 1 ? 2 : 1>(t, 0);
}

void scan_tokens(const ScanTokens& t) { t.corrects ? scan_tokens<true>(t) : scan_tokens<false>(t); }

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

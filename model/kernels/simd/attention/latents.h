// Latents as pairs of bf16, and conversion of int8 latents to such pairs. For latent_kernels.cc only:
// everything is local to the translation unit.
#pragma once

#if defined(__AVX512BF16__)

#include "model/kernels/simd/attention/attention_tile.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

// Rows of latents are multiples of this number of columns.
constexpr std::size_t kPairColumns = 2 * kLanes;
// Bytes of a column of two positions, whose elements alternate.
constexpr std::size_t kColumnBytes = 4;

inline __m512bh as_pairs(const void* p) { return (__m512bh)_mm512_loadu_si512(p); }

// Loads 32 columns of two positions as pairs of columns of each position: a column and the one 16 further on.
[[gnu::always_inline]] inline void load_rows(const unsigned char* columns, __m512bh (&positions)[2]) {
  constexpr __mmask32 kUpper = 0xaaaaaaaaU;
  const WordRegister first = load_words(columns).part[0];
  const WordRegister second = load_words(columns + kVectorBytes).part[0];
  positions[0] = (__m512bh)_mm512_mask_mov_epi16((__m512i)first, kUpper, (__m512i)(second << 16));
  positions[1] = (__m512bh)_mm512_mask_mov_epi16((__m512i)(first >> 16), kUpper, (__m512i)second);
}

// Rounds 32 columns of a query to pairs of the same columns.
inline void round_for_rows(const float* query, std::uint32_t* pairs) {
  alignas(64) static constexpr std::uint16_t kAlternating[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                                 21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                                 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto rounded = (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(query + kLanes), _mm512_loadu_ps(query));
  constexpr __mmask32 kAll = 0xffffffffU;  // masked form: g++ 12 warns about the plain form
  _mm512_storeu_si512(pairs, _mm512_maskz_permutexvar_epi16(kAll, _mm512_load_si512(kAlternating), rounded));
}

#if defined(__AVX512VBMI__)
// The bytes of the magnitudes of int8 as bf16, which is exact.
struct MagnitudeTable {
  alignas(64) unsigned char low[128];
  alignas(64) unsigned char high[128];
};
constexpr MagnitudeTable magnitude_table() {
  MagnitudeTable table{};
  for (unsigned magnitude = 1; magnitude < 128; ++magnitude) {
    unsigned exponent = 134;
    unsigned mantissa = magnitude;
    for (; mantissa < 128; mantissa <<= 1) --exponent;
    const unsigned bits = exponent << 7 | (mantissa & 127U);
    table.low[magnitude] = static_cast<unsigned char>(bits);
    table.high[magnitude] = static_cast<unsigned char>(bits >> 8);
  }
  return table;
}
constexpr MagnitudeTable kMagnitudeTable = magnitude_table();

// Converts int8 latents to the layout of bf16 latents in the cache.
class Int8Widener {
 public:
  // Converts `positions` rows. If their number is odd, the last row is both rows of its pair.
  void widen(const unsigned char* rows, std::size_t positions, std::size_t columns,
             unsigned char* out) const {
    for (std::size_t position = 0; position < positions; position += 2) {
      const unsigned char* first = rows + position * columns;
      const unsigned char* second = position + 1 < positions ? first + columns : first;
      for (std::size_t c = 0; c < columns; c += kPairColumns, out += 2 * kVectorBytes)
        widen_columns(first + c, second + c, out);
    }
  }

 private:
  static __m512i line(const unsigned char* p) { return _mm512_load_si512(p); }
  // Each quarter has four columns of both positions, then the four columns 16 further on.
  static __m512i order() {
    alignas(64) unsigned char places[64];
    for (unsigned i = 0; i < 64; ++i) {
      const unsigned column = i / 16 * 4 + i % 8 / 2 + (i % 16 < 8 ? 0 : kLanes);
      places[i] = static_cast<unsigned char>(i % 2 * kVectorBytes + column);
    }
    return line(places);
  }
  static __m512i half(const unsigned char* p) {
    return _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }

  void widen_columns(const unsigned char* first, const unsigned char* second, unsigned char* out) const {
    // Masked forms: g++ 12 warns about the plain forms.
    constexpr __mmask64 kAll = ~__mmask64{0};
    const __m512i bytes = _mm512_maskz_permutex2var_epi8(kAll, half(first), order_, half(second));
    const __m512i magnitudes = _mm512_maskz_abs_epi8(kAll, bytes);
    const __m512i low = _mm512_permutex2var_epi8(low_[0], magnitudes, low_[1]);
    const __m512i high = _mm512_permutex2var_epi8(high_[0], magnitudes, high_[1]);
    constexpr int kAOrBAndC = 0xf8;
    const __m512i with_signs = _mm512_ternarylogic_epi32(high, bytes, _mm512_set1_epi8(-128), kAOrBAndC);
    _mm512_storeu_si512(out, _mm512_unpacklo_epi8(low, with_signs));
    _mm512_storeu_si512(out + kVectorBytes, _mm512_unpackhi_epi8(low, with_signs));
  }

  __m512i order_ = order();
  __m512i low_[2] = {line(kMagnitudeTable.low), line(kMagnitudeTable.low + 64)};
  __m512i high_[2] = {line(kMagnitudeTable.high), line(kMagnitudeTable.high + 64)};
};
#endif

}  // namespace
}  // namespace tp::kernels

#endif

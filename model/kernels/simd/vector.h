// Vectors of 16 floats or integers in GNU C's notation, as wide as a panel, and what of them differs between
// instruction sets. For simd/*.cc only: everything is local to the translation unit.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tp::kernels {
namespace {

using Vector __attribute__((vector_size(64), aligned(4), may_alias)) = float;
using IntVector __attribute__((vector_size(64), aligned(4), may_alias)) = std::int32_t;
using WordVector __attribute__((vector_size(64), aligned(4), may_alias)) = std::uint32_t;

inline const Vector& load(const float* p) { return *reinterpret_cast<const Vector*>(p); }
inline const WordVector& load_words(const void* p) { return *static_cast<const WordVector*>(p); }
inline void store(const Vector& v, float* p) { *reinterpret_cast<Vector*>(p) = v; }

// 16 f16 numbers.
inline Vector load_f16(const void* p) {
#if defined(__AVX512F__)
  // The masked form: g++ 12 warns of the plain one's own code.
  return (Vector)_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(static_cast<const __m256i*>(p)));
#elif defined(__F16C__)
  union {
    __m256 halves[2];
    Vector all;
  } out;
  const auto* in = static_cast<const __m128i*>(p);
  out.halves[0] = _mm256_cvtph_ps(_mm_loadu_si128(in));
  out.halves[1] = _mm256_cvtph_ps(_mm_loadu_si128(in + 1));
  return out.all;
#else
  using Halves __attribute__((vector_size(32), aligned(2), may_alias)) = std::uint16_t;
  const WordVector bits = __builtin_convertvector(*static_cast<const Halves*>(p), WordVector);
  const WordVector magnitude = bits & 0x7fffU;
  // A product with 2^112 moves the exponent from f16's bias to f32's, subnormals included.
  const Vector scaled = (Vector)(magnitude << 13) * 0x1p112F;
  const WordVector special = (WordVector)(magnitude >= 0x7c00U) & 0x7f800000U;  // infinities and NaN
  return (Vector)((WordVector)scaled | special | ((bits & 0x8000U) << 16));
#endif
}

// acc[i] += w[4i..4i+3] . x[0..3], with w unsigned and x signed bytes; no sum of two products may leave 16
// bits.
inline IntVector dot_bytes(const IntVector& acc, const WordVector& w, const std::int8_t* x) {
  std::int32_t four;
  __builtin_memcpy(&four, x, sizeof(four));
#if defined(__AVX512VNNI__)
  return (IntVector)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)w, _mm512_set1_epi32(four));
#elif defined(__AVX2__)
  union {
    WordVector all;
    __m256i halves[2];
  } bytes;
  union {
    IntVector all;
    __m256i halves[2];
  } sum;
  bytes.all = w;
  sum.all = acc;
  const __m256i x4 = _mm256_set1_epi32(four);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int h = 0; h < 2; ++h) {
    const __m256i pairs = _mm256_maddubs_epi16(bytes.halves[h], x4);
    sum.halves[h] = _mm256_add_epi32(sum.halves[h], _mm256_madd_epi16(pairs, ones));
  }
  return sum.all;
#else
  IntVector sum = acc;
  for (int i = 0; i < 4; ++i) sum += (IntVector)((w >> (8 * i)) & 0xffU) * static_cast<std::int32_t>(x[i]);
  return sum;
#endif
}

// The same with w holding elements + 128, |element| <= 127. Adds 128 times the sum of x besides, unless
// kSignedDotIsExact.
#if defined(__AVX2__) && !defined(__AVX512VNNI__)
constexpr bool kSignedDotIsExact = true;
inline IntVector dot_biased_bytes(const IntVector& acc, const WordVector& w, const std::int8_t* x) {
  // 255 * 127 twice would leave 16 bits: multiply magnitudes, with the sign given to x.
  std::int32_t four;
  __builtin_memcpy(&four, x, sizeof(four));
  union {
    WordVector all;
    __m256i halves[2];
  } bytes;
  union {
    IntVector all;
    __m256i halves[2];
  } sum;
  bytes.all = w ^ 0x80808080U;
  sum.all = acc;
  const __m256i x4 = _mm256_set1_epi32(four);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int h = 0; h < 2; ++h) {
    const __m256i element = bytes.halves[h];
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(element), _mm256_sign_epi8(x4, element));
    sum.halves[h] = _mm256_add_epi32(sum.halves[h], _mm256_madd_epi16(pairs, ones));
  }
  return sum.all;
}
#else
constexpr bool kSignedDotIsExact = false;
inline IntVector dot_biased_bytes(const IntVector& acc, const WordVector& w, const std::int8_t* x) {
  return dot_bytes(acc, w, x);
}
#endif

}  // namespace
}  // namespace tp::kernels

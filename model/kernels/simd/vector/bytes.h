// Vectors of 16 bytes as integers, and tables. For simd/*.cc only: everything is local to the translation
// unit.
#pragma once

#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

// 16 unsigned bytes as integers.
inline IntVector load_bytes(const unsigned char* p) {
  IntVector out;
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  out.part[0] = (IntRegister)_mm512_maskz_cvtepu8_epi32(0xffff, bytes);
#elif defined(__AVX2__)
  for (std::size_t i = 0; i < kParts; ++i) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8 * i));
    out.part[i] = (IntRegister)_mm256_cvtepu8_epi32(bytes);
  }
#elif defined(TP_NEON)
  neon_widen(vld1q_u8(p), out.part);
#else
  for (std::size_t i = 0; i < kParts; ++i) {
    for (std::size_t j = 0; j < kLanes / kParts; ++j) out.part[i][j] = p[i * kLanes / kParts + j];
  }
#endif
  return out;
}

// 16 signed bytes as integers.
inline IntVector load_signed_bytes(const unsigned char* p) {
  IntVector out = load_bytes(p);
  for (std::size_t i = 0; i < kParts; ++i) out.part[i] = (out.part[i] << 24) >> 24;
  return out;
}

inline WordVector words_of(const IntVector& numbers) {
  WordVector out;
  for (std::size_t i = 0; i < kParts; ++i) out.part[i] = (WordRegister)numbers.part[i];
  return out;
}

// Replaces each byte, which must be below 16, by the byte at this place of the table.
inline WordVector look_up(const std::uint8_t* table, const WordVector& places) {
  WordVector out;
#if defined(__AVX2__)
  const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  for (std::size_t i = 0; i < kParts; ++i) {
#if defined(__AVX512F__)
    const __m512i all = _mm512_maskz_broadcast_i32x4(0xffff, values);
    out.part[i] = (WordRegister)_mm512_shuffle_epi8(all, (__m512i)places.part[i]);
#else
    const __m256i all = _mm256_broadcastsi128_si256(values);
    out.part[i] = (WordRegister)_mm256_shuffle_epi8(all, (__m256i)places.part[i]);
#endif
  }
#elif defined(TP_NEON)
  const uint8x16_t values = vld1q_u8(table);
  for (std::size_t i = 0; i < kParts; ++i)
    out.part[i] = (WordRegister)vqtbl1q_u8(values, (uint8x16_t)places.part[i]);
#else
  for (std::size_t i = 0; i < kParts; ++i) {
    for (std::size_t j = 0; j < kLanes / kParts; ++j) {
      std::uint32_t word = 0;
      for (int b = 0; b < 32; b += 8)
        word |= static_cast<std::uint32_t>(table[places.part[i][j] >> b & 15U]) << b;
      out.part[i][j] = word;
    }
  }
#endif
  return out;
}

// The floats at 16 places, which must be below 16, of a table of 16 floats.
inline Vector look_up_floats(const float* table, const IntVector& places) {
  Vector out;
#if defined(__AVX512F__)
  out.part[0] =
      (FloatRegister)_mm512_maskz_permutexvar_ps(0xffff, (__m512i)places.part[0], _mm512_loadu_ps(table));
#elif defined(__AVX2__)
  const __m256 lower = _mm256_loadu_ps(table);
  const __m256 upper = _mm256_loadu_ps(table + 8);
  for (std::size_t i = 0; i < kParts; ++i) {
    const auto place = (__m256i)places.part[i];
    const __m256 is_upper = _mm256_castsi256_ps(_mm256_slli_epi32(place, 28));  // bit 3 becomes the sign
    out.part[i] = (FloatRegister)_mm256_blendv_ps(_mm256_permutevar8x32_ps(lower, place),
                                                  _mm256_permutevar8x32_ps(upper, place), is_upper);
  }
#elif defined(TP_NEON)
  const uint8x16x4_t all = vld1q_u8_x4(reinterpret_cast<const std::uint8_t*>(table));
  for (std::size_t i = 0; i < kParts; ++i) {
    // The places of a float's four bytes.
    const WordRegister of_bytes = (WordRegister)places.part[i] * 0x04040404U + 0x03020100U;
    out.part[i] = (FloatRegister)vqtbl4q_u8(all, (uint8x16_t)of_bytes);
  }
#else
  for (std::size_t i = 0; i < kParts; ++i) {
    for (std::size_t j = 0; j < kLanes / kParts; ++j) out.part[i][j] = table[places.part[i][j]];
  }
#endif
  return out;
}

// table[places] for 16 places.
inline WordVector gather(const std::uint32_t* table, const WordVector& places) {
  WordVector out;
#if defined(__AVX512F__)
  // Masked form: g++ 12 warns about the plain form.
  out.part[0] = (WordRegister)_mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xffff,
                                                          (__m512i)places.part[0], table, 4);
#elif defined(__AVX2__)
  for (std::size_t i = 0; i < kParts; ++i)
    out.part[i] =
        (WordRegister)_mm256_i32gather_epi32(reinterpret_cast<const int*>(table), (__m256i)places.part[i], 4);
#else
  for (std::size_t i = 0; i < kParts; ++i) {
    for (std::size_t j = 0; j < kLanes / kParts; ++j) out.part[i][j] = table[places.part[i][j]];
  }
#endif
  return out;
}

}  // namespace
}  // namespace tp::kernels

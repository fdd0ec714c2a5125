// Vectors of FP8 numbers. For simd/*.cc only: everything is local to the translation unit.
#pragma once

#include "model/kernels/simd/vector/bytes.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

// 16 F8_E4M3 numbers divided by 256. Their bits are those of an f16 except for the exponent's bias, even for
// subnormals. NaNs become 480 / 256; see pack_scaled.
inline Vector load_e4m3_over_256(const unsigned char* p) {
  Vector out;
#if defined(__F16C__)
  // Sign-extended and shifted, a byte has its sign in both high bits; the lower one becomes part of the
  // exponent.
  const __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i halves = _mm256_and_si256(_mm256_slli_epi16(words, 7), _mm256_set1_epi16(-0x4001));
#if defined(__AVX512F__)
  out.part[0] = (FloatRegister)_mm512_maskz_cvtph_ps(0xffff, halves);
#else
  out.part[0] = (FloatRegister)_mm256_cvtph_ps(_mm256_castsi256_si128(halves));
  out.part[1] = (FloatRegister)_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
#endif
#elif defined(TP_NEON)
  const int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(p));
  const int16x8_t words[] = {vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes)};
  for (std::size_t i = 0; i < 2; ++i) {
    const int16x8_t halves = vandq_s16(vshlq_n_s16(words[i], 7), vdupq_n_s16(-0x4001));  // as above
    neon_widen(vreinterpretq_f16_s16(halves), out.part[2 * i], out.part[2 * i + 1]);
  }
#else
  const IntVector bytes = load_bytes(p);
  for (std::size_t i = 0; i < kParts; ++i) {
    const auto bits = (WordRegister)bytes.part[i];
    // For subnormals, 1 + mantissa minus 1, so that no intermediate value is a subnormal float32.
    const WordRegister magnitude = (bits & 0x7fU) << 20;
    const WordRegister is_subnormal = (WordRegister)((bits & 0x78U) == 0U);
    const WordRegister normal = magnitude + (112U << 23);
    const WordRegister one = WordRegister{} + (113U << 23);
    const FloatRegister subnormal = (FloatRegister)(magnitude + one) - (FloatRegister)one;
    out.part[i] = (FloatRegister)((normal & ~is_subnormal) | ((WordRegister)subnormal & is_subnormal) |
                                  (bits & 0x80U) << 24);
  }
#endif
  return out;
}

}  // namespace
}  // namespace tp::kernels

// Rounding to bf16. For simd/*.cc only: everything is local to the translation unit.
#pragma once

#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

inline std::uint32_t nearest_bf16(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
}

// Rounds 32 numbers to 16 pairs, to nearest, ties to even.
inline void round_32_to_bf16(const float* x, std::uint32_t* pairs) {
#if defined(__AVX512BF16__)
  const __m512bh all = _mm512_cvtne2ps_pbh((__m512)load(x + kLanes).part[0], (__m512)load(x).part[0]);
  __builtin_memcpy(pairs, &all, sizeof(all));
#else
#pragma omp simd
  for (std::size_t i = 0; i < 16; ++i) pairs[i] = nearest_bf16(x[2 * i]) | nearest_bf16(x[2 * i + 1]) << 16;
#endif
}

// Rounds 16 numbers to 8 pairs, to nearest, ties to even.
inline void round_16_to_bf16(const float* x, std::uint32_t* pairs) {
#if defined(__AVX512BF16__)
  const __m256bh all = _mm512_cvtneps_pbh((__m512)load(x).part[0]);
  __builtin_memcpy(pairs, &all, sizeof(all));
#else
#pragma omp simd
  for (std::size_t i = 0; i < 8; ++i) pairs[i] = nearest_bf16(x[2 * i]) | nearest_bf16(x[2 * i + 1]) << 16;
#endif
}

// Pairs of an element of each vector. Rounds ties away from zero: cheaper, and equally good for products.
inline WordVector round_half_up(const Vector& first, const Vector& second) {
  WordVector out;
  for (std::size_t i = 0; i < kParts; ++i) {
    const WordRegister low = ((WordRegister)first.part[i] + 0x8000U) >> 16;
    const WordRegister high = ((WordRegister)second.part[i] + 0x8000U) & 0xffff0000U;
    out.part[i] = low | high;
  }
  return out;
}

}  // namespace
}  // namespace tp::kernels

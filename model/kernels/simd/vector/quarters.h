// Shuffles among 16 vectors, for packing. For simd/*.cc only: everything is local to the translation unit.
//
// Shuffles within 128 bits exist in every instruction set, and are cheap. Therefore a vector is four quarters
// of four elements here, for any width of registers. Only transpose_quarters moves data between quarters.
#pragma once

#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

// Bit i: whether the i-th elements are equal.
inline std::uint32_t equal_lanes(const Vector& a, const Vector& b) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)a.part[0], (__m512)b.part[0], _CMP_EQ_OQ);
#else
  std::uint32_t lanes = 0;
  for (std::size_t i = 0; i < kParts; ++i) {
#if defined(__AVX2__)
    const __m256 equal = _mm256_cmp_ps((__m256)a.part[i], (__m256)b.part[i], _CMP_EQ_OQ);
    lanes |= static_cast<std::uint32_t>(_mm256_movemask_ps(equal)) << (8 * i);
#elif defined(TP_NEON)
    constexpr WordRegister kBits = {1, 2, 4, 8};
    lanes |= vaddvq_u32((uint32x4_t)((WordRegister)(a.part[i] == b.part[i]) & kBits)) << (4 * i);
#else
    for (std::size_t j = 0; j < 4; ++j) {
      lanes |= static_cast<std::uint32_t>(a.part[i][j] == b.part[i][j]) << (4 * i + j);
    }
#endif
  }
  return lanes;
#endif
}

// Picks four elements of each quarter by index: 0 to 3 are elements of a, 4 to 7 of b.
template <int kFirst, int kSecond, int kThird, int kFourth>
inline FloatRegister shuffle_quarters(FloatRegister a, FloatRegister b) {
  constexpr auto at = [](int quarter, int element) {
    constexpr int kWidth = kRegisterBytes / sizeof(float);
    return 4 * quarter + element % 4 + (element < 4 ? 0 : kWidth);
  };
#define TP_QUARTER(q) at(q, kFirst), at(q, kSecond), at(q, kThird), at(q, kFourth)
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, TP_QUARTER(0), TP_QUARTER(1), TP_QUARTER(2), TP_QUARTER(3));
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, TP_QUARTER(0), TP_QUARTER(1));
#else
  return __builtin_shufflevector(a, b, TP_QUARTER(0));
#endif
#undef TP_QUARTER
}

// Quarter q of vector i becomes quarter i of vector q.
template <class Register>
inline void transpose_quarters(Wide<Register> (&v)[4]) {
#if defined(__AVX512F__)
  const auto even = [](Register a, Register b) {
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
  };
  const auto odd = [](Register a, Register b) {
    return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  };
  const Register even01 = even(v[0].part[0], v[1].part[0]);
  const Register even23 = even(v[2].part[0], v[3].part[0]);
  const Register odd01 = odd(v[0].part[0], v[1].part[0]);
  const Register odd23 = odd(v[2].part[0], v[3].part[0]);
  v[0].part[0] = even(even01, even23);
  v[1].part[0] = even(odd01, odd23);
  v[2].part[0] = odd(even01, even23);
  v[3].part[0] = odd(odd01, odd23);
#else
  Wide<Register> out[4];
  for (std::size_t i = 0; i < kParts; ++i) {
    for (std::size_t j = 0; j < kParts; ++j) {
#if defined(__AVX2__)
      const Register a = v[2 * i].part[j];
      const Register b = v[2 * i + 1].part[j];
      out[2 * j].part[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
      out[2 * j + 1].part[i] = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
#else
      out[j].part[i] = v[i].part[j];
#endif
    }
  }
  for (std::size_t i = 0; i < 4; ++i) v[i] = out[i];
#endif
}

// Reduces each of 16 vectors to one element of the result by `better`, which is larger or smaller. Four
// vectors at a time are first reduced to the quarters of one vector.
template <class Better>
inline Vector best_in_quarters(const Vector (&v)[4], const Better& better) {
  Vector low[2];
  Vector high[2];
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t k = 0; k < kParts; ++k) {
      low[i].part[k] = shuffle_quarters<0, 4, 1, 5>(v[2 * i].part[k], v[2 * i + 1].part[k]);
      high[i].part[k] = shuffle_quarters<2, 6, 3, 7>(v[2 * i].part[k], v[2 * i + 1].part[k]);
    }
  }
  const Vector first = better(low[0], high[0]);
  const Vector second = better(low[1], high[1]);
  for (std::size_t k = 0; k < kParts; ++k) {
    low[0].part[k] = shuffle_quarters<0, 1, 4, 5>(first.part[k], second.part[k]);
    high[0].part[k] = shuffle_quarters<2, 3, 6, 7>(first.part[k], second.part[k]);
  }
  return better(low[0], high[0]);
}
template <class Better>
inline Vector best_of_quarters(Vector (&quarters)[4], const Better& better) {
  transpose_quarters(quarters);
  return better(better(quarters[0], quarters[1]), better(quarters[2], quarters[3]));
}

// Converts integers to bytes. A quarter of the result contains bytes from the same quarter of all four
// vectors: four of v[0], four of v[1], ... Values outside of Byte's range are clamped.
template <class Byte>
inline WordVector narrow(const IntVector (&v)[4]) {
  constexpr bool kSigned = static_cast<Byte>(-1) < 0;
  WordVector out;
#if defined(__AVX512F__)
  const __m512i low = _mm512_packs_epi32((__m512i)v[0].part[0], (__m512i)v[1].part[0]);
  const __m512i high = _mm512_packs_epi32((__m512i)v[2].part[0], (__m512i)v[3].part[0]);
  out.part[0] = (WordRegister)(kSigned ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high));
#else
  for (std::size_t i = 0; i < kParts; ++i) {
#if defined(__AVX2__)
    const __m256i low = _mm256_packs_epi32((__m256i)v[0].part[i], (__m256i)v[1].part[i]);
    const __m256i high = _mm256_packs_epi32((__m256i)v[2].part[i], (__m256i)v[3].part[i]);
    out.part[i] = (WordRegister)(kSigned ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high));
#elif defined(__SSE2__)
    const __m128i low = _mm_packs_epi32((__m128i)v[0].part[i], (__m128i)v[1].part[i]);
    const __m128i high = _mm_packs_epi32((__m128i)v[2].part[i], (__m128i)v[3].part[i]);
    out.part[i] = (WordRegister)(kSigned ? _mm_packs_epi16(low, high) : _mm_packus_epi16(low, high));
#elif defined(TP_NEON)
    const int16x8_t low = vqmovn_high_s32(vqmovn_s32((int32x4_t)v[0].part[i]), (int32x4_t)v[1].part[i]);
    const int16x8_t high = vqmovn_high_s32(vqmovn_s32((int32x4_t)v[2].part[i]), (int32x4_t)v[3].part[i]);
    out.part[i] = kSigned ? (WordRegister)vqmovn_high_s16(vqmovn_s16(low), high)
                          : (WordRegister)vqmovun_high_s16(vqmovun_s16(low), high);
#else
    constexpr std::int32_t kLowest = kSigned ? -128 : 0;
    for (std::size_t j = 0; j < 4; ++j) {
      out.part[i][j] = 0;
      for (std::size_t k = 0; k < 4; ++k) {
        std::int32_t element = v[j].part[i][k];
        element = element < kLowest ? kLowest : element > kLowest + 255 ? kLowest + 255 : element;
        out.part[i][j] |= (static_cast<std::uint32_t>(element) & 0xffU) << (8 * k);
      }
    }
#endif
  }
#endif
  return out;
}

}  // namespace
}  // namespace tp::kernels

// Vectors of 16 floats or integers (the width of a panel), in as many registers as the instruction set needs.
// For simd/*.cc only: everything is local to the translation unit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(TP_NEON)  // the sets of ARM; every 64-bit ARM compiler defines __ARM_NEON
#include "model/kernels/simd/vector/neon.h"
#endif

namespace tp::kernels {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t kRegisterBytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t kRegisterBytes = 32;
#else
constexpr std::size_t kRegisterBytes = 16;
#endif

// Whether one instruction adds products of four bytes to a sum of 32 bits.
#if defined(__AVX512VNNI__) || defined(TP_VNNI_256) || (defined(TP_NEON) && defined(__ARM_FEATURE_DOTPROD))
#define TP_HAS_BYTE_SUMS
#endif

// Whether one instruction multiplies two rows of bytes, or of bf16, by two others.
#if defined(TP_NEON) && defined(__ARM_FEATURE_MATMUL_INT8)
#define TP_HAS_BYTE_MATRICES
#endif
#if defined(TP_NEON) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define TP_HAS_BF16_MATRICES
#endif

constexpr std::size_t kLanes = 16;
constexpr std::size_t kVectorBytes = 64;
constexpr std::size_t kParts = kVectorBytes / kRegisterBytes;

// The parts of a vector are an array instead of one wide GNU vector: compilers keep GNU vectors that are
// wider than a register in memory.
using FloatRegister __attribute__((vector_size(kRegisterBytes))) = float;
using IntRegister __attribute__((vector_size(kRegisterBytes))) = std::int32_t;
using WordRegister __attribute__((vector_size(kRegisterBytes))) = std::uint32_t;

template <class Register>
struct Wide {
  Register part[kParts];

  Wide& operator+=(const Wide& other) {
    for (std::size_t i = 0; i < kParts; ++i) part[i] += other.part[i];
    return *this;
  }
  Wide& operator^=(const Wide& other) {
    for (std::size_t i = 0; i < kParts; ++i) part[i] ^= other.part[i];
    return *this;
  }
};

using Vector = Wide<FloatRegister>;
using IntVector = Wide<IntRegister>;
using WordVector = Wide<WordRegister>;

// A vector whose 16 elements are all `value`.
inline Vector broadcast(float value) {
  Vector out;
  // Subtracting 0 changes nothing, not even -0. Adding 0 changes -0, so compilers would emit the addition.
  for (std::size_t i = 0; i < kParts; ++i) out.part[i] = value - FloatRegister{};
  return out;
}
inline IntVector broadcast(std::int32_t value) {
  IntVector out;
  for (std::size_t i = 0; i < kParts; ++i) out.part[i] = IntRegister{} + value;
  return out;
}

// Part by part, because a copy of the whole would go through memory.
inline Vector load(const float* p) {
  Vector out;
  for (std::size_t i = 0; i < kParts; ++i)
    __builtin_memcpy(&out.part[i], p + i * kLanes / kParts, kRegisterBytes);
  return out;
}
inline WordVector load_words(const unsigned char* p) {
  WordVector out;
  for (std::size_t i = 0; i < kParts; ++i)
    __builtin_memcpy(&out.part[i], p + i * kRegisterBytes, kRegisterBytes);
  return out;
}
inline void store(const Vector& v, float* p) {
  for (std::size_t i = 0; i < kParts; ++i)
    __builtin_memcpy(p + i * kLanes / kParts, &v.part[i], kRegisterBytes);
}
inline void store(const WordVector& v, unsigned char* p) {
  for (std::size_t i = 0; i < kParts; ++i)
    __builtin_memcpy(p + i * kRegisterBytes, &v.part[i], kRegisterBytes);
}

// sum += a * b
inline void multiply_add(const Vector& a, const Vector& b, Vector& sum) {
  for (std::size_t i = 0; i < kParts; ++i) sum.part[i] += a.part[i] * b.part[i];
}
inline void multiply_add(const Vector& a, float b, Vector& sum) {
  for (std::size_t i = 0; i < kParts; ++i) sum.part[i] += a.part[i] * b;
}

inline Vector magnitude(const Vector& v) {
  Vector out;
  for (std::size_t i = 0; i < kParts; ++i)
    out.part[i] = (FloatRegister)((WordRegister)v.part[i] & 0x7fffffffU);
  return out;
}

// larger(a, b) and smaller(a, b), element by element, for registers and vectors; b if a is NaN. Objects, so
// that they can be passed as arguments.
struct Larger {
  FloatRegister operator()(const FloatRegister& a, const FloatRegister& b) const {
#if defined(__AVX512F__)
    // From the plain form, g++ 12 makes a comparison and a selection.
    return (FloatRegister)_mm512_maskz_max_ps(0xffff, (__m512)a, (__m512)b);
#else
    return a > b ? a : b;
#endif
  }
  Vector operator()(const Vector& a, const Vector& b) const {
    Vector out;
    for (std::size_t i = 0; i < kParts; ++i) out.part[i] = (*this)(a.part[i], b.part[i]);
    return out;
  }
};
struct Smaller {
  FloatRegister operator()(const FloatRegister& a, const FloatRegister& b) const {
#if defined(__AVX512F__)
    return (FloatRegister)_mm512_maskz_min_ps(0xffff, (__m512)a, (__m512)b);
#else
    return a < b ? a : b;
#endif
  }
  Vector operator()(const Vector& a, const Vector& b) const {
    Vector out;
    for (std::size_t i = 0; i < kParts; ++i) out.part[i] = (*this)(a.part[i], b.part[i]);
    return out;
  }
};
constexpr Larger larger;
constexpr Smaller smaller;

// Exchanges elements at distance kDistance.
template <int kDistance, int... kElements>
inline FloatRegister swap_elements(const FloatRegister& v, std::integer_sequence<int, kElements...>) {
  return __builtin_shufflevector(v, v, (kElements ^ kDistance)...);
}

// Combines all elements to one, halves with halves, by combine(register, register).
template <class Combine>
inline float fold_elements(const Vector& v, const Combine& combine) {
  constexpr int kWidth = kRegisterBytes / sizeof(float);
  constexpr auto kElements = std::make_integer_sequence<int, kWidth>{};
  FloatRegister all = v.part[0];
  for (std::size_t i = 1; i < kParts; ++i) all = combine(all, v.part[i]);
  if constexpr (kWidth > 8) all = combine(all, swap_elements<8>(all, kElements));
  if constexpr (kWidth > 4) all = combine(all, swap_elements<4>(all, kElements));
  all = combine(all, swap_elements<2>(all, kElements));
  all = combine(all, swap_elements<1>(all, kElements));
  return all[0];
}
inline float sum_of_elements(const Vector& v) {
  return fold_elements(v, [](const FloatRegister& a, const FloatRegister& b) { return a + b; });
}
inline float largest_element(const Vector& v) { return fold_elements(v, larger); }

// The elements of 32 bf16 numbers with even and with odd indices.
inline Vector even_bf16(const WordVector& pairs) {
  Vector out;
  for (std::size_t i = 0; i < kParts; ++i) out.part[i] = (FloatRegister)(pairs.part[i] << 16);
  return out;
}
inline Vector odd_bf16(const WordVector& pairs) {
  Vector out;
  for (std::size_t i = 0; i < kParts; ++i) out.part[i] = (FloatRegister)(pairs.part[i] & 0xffff0000U);
  return out;
}

// 16 bf16 numbers.
inline Vector load_bf16(const unsigned char* p) {
  Vector out;
#if defined(__AVX512F__)
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  out.part[0] = (FloatRegister)((WordRegister)_mm512_maskz_cvtepu16_epi32(0xffff, halves) << 16);
#elif defined(__AVX2__)
  for (std::size_t i = 0; i < kParts; ++i) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p) + i);
    out.part[i] = (FloatRegister)((WordRegister)_mm256_cvtepu16_epi32(halves) << 16);
  }
#else
  using Halves __attribute__((vector_size(kRegisterBytes))) = std::uint16_t;
  for (std::size_t i = 0; i < kParts; i += 2) {
    Halves halves;
    __builtin_memcpy(&halves, p + i * sizeof(halves) / 2, sizeof(halves));
    // Zeros become the low halves of words.
    out.part[i] = (FloatRegister)__builtin_shufflevector(Halves{}, halves, 0, 8, 1, 9, 2, 10, 3, 11);
    out.part[i + 1] = (FloatRegister)__builtin_shufflevector(Halves{}, halves, 4, 12, 5, 13, 6, 14, 7, 15);
  }
#endif
  return out;
}

// 16 f16 numbers.
inline Vector load_f16(const unsigned char* p) {
  Vector out;
#if defined(__AVX512F__)
  // Masked form: g++ 12 warns about the plain form.
  out.part[0] =
      (FloatRegister)_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__F16C__)
  for (std::size_t i = 0; i < kParts; ++i) {
    out.part[i] = (FloatRegister)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p) + i));
  }
#elif defined(TP_NEON)
  for (std::size_t i = 0; i < kParts; i += 2)
    neon_widen(vreinterpretq_f16_u8(vld1q_u8(p + 8 * i)), out.part[i], out.part[i + 1]);
#else
  const Vector upper_halves = load_bf16(p);
  for (std::size_t i = 0; i < kParts; ++i) {
    const WordRegister bits = (WordRegister)upper_halves.part[i] >> 16;
    const WordRegister magnitude = bits & 0x7fffU;
    // A product with 2^112 changes the exponent's bias from f16's to f32's, even for subnormals.
    const FloatRegister scaled = (FloatRegister)(magnitude << 13) * 0x1p112F;
    const WordRegister special = (WordRegister)(magnitude >= 0x7c00U) & 0x7f800000U;  // infinities and NaN
    out.part[i] = (FloatRegister)((WordRegister)scaled | special | ((bits & 0x8000U) << 16));
  }
#endif
  return out;
}

// 16 numbers rounded to f16 like float_to_f16 in half.h: to nearest, ties to even, and with a single NaN.
inline void store_f16(const Vector& v, unsigned char* p) {
#if defined(__F16C__)
  using Halves __attribute__((vector_size(kRegisterBytes / 2))) = std::uint16_t;
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT;
  for (std::size_t i = 0; i < kParts; ++i) {
#if defined(__AVX512F__)
    const auto bits = (Halves)_mm512_maskz_cvtps_ph(0xffff, (__m512)v.part[i], kNearest);
#else
    const auto bits = (Halves)_mm256_cvtps_ph((__m256)v.part[i], kNearest);
#endif
    const Halves magnitude = bits & 0x7fffU;  // above 0x7e00: other NaNs
    const Halves one_nan = magnitude < 0x7e00U ? magnitude : Halves{} + 0x7e00U;
    const Halves half = one_nan | (bits & 0x8000U);
    __builtin_memcpy(p + i * sizeof(half), &half, sizeof(half));
  }
#elif defined(TP_NEON)
  for (std::size_t i = 0; i < kParts; i += 2)
    vst1q_u8(p + 8 * i, vreinterpretq_u8_u16(neon_halves(v.part[i], v.part[i + 1])));
#else
  // Selections instead of branches. Compares signed numbers, as SSE2 can.
  using Halves __attribute__((vector_size(kRegisterBytes))) = std::uint16_t;
  Halves halves[kParts];
  for (std::size_t i = 0; i < kParts; ++i) {
    const auto bits = (WordRegister)v.part[i];
    const WordRegister magnitude = bits & 0x7fffffffU;
    const WordRegister normal = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13;
    const WordRegister subnormal = (WordRegister)((FloatRegister)magnitude + 0.5F) - 0x3f000000U;
    WordRegister half = (IntRegister)magnitude < 0x38800000 ? subnormal : normal;
    half = (IntRegister)magnitude < 0x477ff000 ? half : WordRegister{} + 0x7c00U;
    half = (IntRegister)magnitude > 0x7f800000 ? WordRegister{} + 0x7e00U : half;
    halves[i] = (Halves)(half | ((bits >> 16) & 0x8000U));
  }
  for (std::size_t i = 0; i < kParts; i += 2) {
    const Halves lower = __builtin_shufflevector(halves[i], halves[i + 1], 0, 2, 4, 6, 8, 10, 12, 14);
    __builtin_memcpy(p + i * sizeof(lower) / 2, &lower, sizeof(lower));
  }
#endif
}

inline std::int32_t four_bytes(const std::int8_t* x) {
  std::int32_t four;
  __builtin_memcpy(&four, x, sizeof(four));
  return four;
}

// The sum of 16 or 32 bytes.
template <std::size_t kCount>
inline std::int32_t sum_of_bytes(const std::int8_t* bytes) {
#if defined(__AVX2__)
  // An instruction adds eight unsigned bytes, so 128 is added to each byte.
  const auto add_eights = [](const std::int8_t* p) __attribute__((always_inline)) {
    const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm_sad_epu8(_mm_xor_si128(all, _mm_set1_epi8(-128)), _mm_setzero_si128());
  };
  __m128i sums = add_eights(bytes);
  if constexpr (kCount == 32) sums = _mm_add_epi32(sums, add_eights(bytes + 16));
  constexpr auto kAdded = static_cast<std::int32_t>(128 * kCount);
  return _mm_cvtsi128_si32(sums) + _mm_extract_epi32(sums, 2) - kAdded;
#elif defined(TP_NEON)
  std::int32_t sum = vaddlvq_s8(vld1q_s8(bytes));
  if constexpr (kCount == 32) sum += vaddlvq_s8(vld1q_s8(bytes + 16));
  return sum;
#else
  std::int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < kCount; ++i) sum += bytes[i];
  return sum;
#endif
}

#if defined(__AVX2__)
using ShortRegister __attribute__((vector_size(kRegisterBytes))) = std::int16_t;

// Sums of 16 bits: products of unsigned w with four signed x, added in pairs.
inline ShortRegister products_of_pairs(const WordRegister& w, std::int32_t x4) {
#if defined(__AVX512F__)
  return (ShortRegister)_mm512_maddubs_epi16((__m512i)w, _mm512_set1_epi32(x4));
#else
  return (ShortRegister)_mm256_maddubs_epi16((__m256i)w, _mm256_set1_epi32(x4));
#endif
}
inline IntRegister sums_of_pairs(const ShortRegister& pairs) {
#if defined(__AVX512F__)
  return (IntRegister)_mm512_madd_epi16((__m512i)pairs, _mm512_set1_epi16(1));
#else
  return (IntRegister)_mm256_madd_epi16((__m256i)pairs, _mm256_set1_epi16(1));
#endif
}
#endif

// sum[i] += w[4i..4i+3] . x[0..3], with unsigned w and signed x. The sum of two products must fit in 16 bits.
// NEON multiplies signed w, so w must be below 128 there.
inline void dot_bytes(const WordVector& w, const std::int8_t* x, IntVector& sum) {
#if defined(__AVX512VNNI__)
  sum.part[0] = (IntRegister)_mm512_dpbusd_epi32((__m512i)sum.part[0], (__m512i)w.part[0],
                                                 _mm512_set1_epi32(four_bytes(x)));
#elif defined(TP_VNNI_256)
  // An assembler instruction, because the same file is compiled for both encodings: TP_VNNI_256 is "vex"
  // (AVX-VNNI) or "evex" (AVX512_VNNI with AVX512VL).
  const __m256i x4 = _mm256_set1_epi32(four_bytes(x));
  for (std::size_t i = 0; i < kParts; ++i)
    asm("%{" TP_VNNI_256 "%} vpdpbusd %2, %1, %0" : "+x"(sum.part[i]) : "x"(w.part[i]), "x"(x4));
#elif defined(__AVX2__)
  for (std::size_t i = 0; i < kParts; ++i)
    sum.part[i] += sums_of_pairs(products_of_pairs(w.part[i], four_bytes(x)));
#elif defined(TP_NEON)
  const int8x16_t x4 = neon_four_bytes(x);
  for (std::size_t i = 0; i < kParts; ++i)
    sum.part[i] = (IntRegister)neon_dot((int32x4_t)sum.part[i], (int8x16_t)w.part[i], x4);
#else
  for (std::size_t i = 0; i < kParts; ++i) {
    for (int b = 0; b < 4; ++b) {
      sum.part[i] += (IntRegister)((w.part[i] >> (8 * b)) & 0xffU) * static_cast<std::int32_t>(x[b]);
    }
  }
#endif
}

// dot_bytes for w that contains elements + 128, |element| <= 127. Also adds 128 times the sum of x, unless
// kBiasedDotIsExact.
#if defined(__AVX2__) && !defined(TP_HAS_BYTE_SUMS)
constexpr bool kBiasedDotIsExact = true;
inline void dot_biased_bytes(const WordVector& w, const std::int8_t* x, IntVector& sum) {
  // 255 * 127 twice would exceed 16 bits: multiplies magnitudes instead, and applies the sign to x.
  for (std::size_t i = 0; i < kParts; ++i) {
#if defined(__AVX512F__)
    const __m512i x4 = _mm512_set1_epi32(four_bytes(x));
    const __m512i element = _mm512_xor_si512((__m512i)w.part[i], _mm512_set1_epi8(-128));
    const __m512i signed_x = _mm512_mask_sub_epi8(x4, _mm512_movepi8_mask(element), __m512i{}, x4);
    const __m512i pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(element), signed_x);
#else
    const __m256i x4 = _mm256_set1_epi32(four_bytes(x));
    const __m256i element = _mm256_xor_si256((__m256i)w.part[i], _mm256_set1_epi8(-128));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(element), _mm256_sign_epi8(x4, element));
#endif
    sum.part[i] += sums_of_pairs((ShortRegister)pairs);
  }
}
#elif defined(TP_NEON)
constexpr bool kBiasedDotIsExact = true;
inline void dot_biased_bytes(const WordVector& w, const std::int8_t* x, IntVector& sum) {
  WordVector elements = w;
  for (WordRegister& part : elements.part) part ^= 0x80808080U;
  dot_bytes(elements, x, sum);
}
#else
constexpr bool kBiasedDotIsExact = false;
inline void dot_biased_bytes(const WordVector& w, const std::int8_t* x, IntVector& sum) {
  dot_bytes(w, x, sum);
}
#endif

// Adds a group's integer sum to the result, multiplied by the weights' and the token's scales.
inline void add_scaled(const IntVector& sum, const Vector& scales, float x_scale, Vector& result) {
  for (std::size_t i = 0; i < kParts; ++i) {
    result.part[i] += __builtin_convertvector(sum.part[i], FloatRegister) * (scales.part[i] * x_scale);
  }
}

}  // namespace
}  // namespace tp::kernels

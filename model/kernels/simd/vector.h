// Vectors of 16 floats or integers, as wide as a panel, in as many registers as the instruction set needs for
// them. For simd/*.cc only: everything is local to the translation unit.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tp::kernels {
namespace {

#if defined(__AVX512VNNI__)
constexpr std::size_t kRegisterBytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t kRegisterBytes = 32;
#else
constexpr std::size_t kRegisterBytes = 16;
#endif

constexpr std::size_t kLanes = 16;
constexpr std::size_t kVectorBytes = 64;
constexpr std::size_t kParts = kVectorBytes / kRegisterBytes;

// The parts of a vector are an array and not one wide GNU vector, because compilers keep the latter in memory
// where it is wider than a register.
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

// All 16 elements `value`.
inline Vector broadcast(float value) {
  Vector out;
  // Subtracting 0 changes nothing, not even -0: adding it would, so compilers add.
  for (std::size_t i = 0; i < kParts; ++i) out.part[i] = value - FloatRegister{};
  return out;
}
inline IntVector broadcast(std::int32_t value) {
  IntVector out;
  for (std::size_t i = 0; i < kParts; ++i) out.part[i] = IntRegister{} + value;
  return out;
}

// Part by part: a copy of the whole would go through memory.
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

// sum += a * b
inline void multiply_add(const Vector& a, const Vector& b, Vector& sum) {
  for (std::size_t i = 0; i < kParts; ++i) sum.part[i] += a.part[i] * b.part[i];
}
inline void multiply_add(const Vector& a, float b, Vector& sum) {
  for (std::size_t i = 0; i < kParts; ++i) sum.part[i] += a.part[i] * b;
}

inline void raise_to(const Vector& v, Vector& highest) {
  for (std::size_t i = 0; i < kParts; ++i) {
    highest.part[i] = v.part[i] > highest.part[i] ? v.part[i] : highest.part[i];
  }
}

// Lanes of the upper half together with those of the lower one, until one is left.
template <class Combine>
inline float fold_lanes(const Vector& v, const Combine& combine) {
  float lanes[kLanes];
  store(v, lanes);
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] = combine(lanes[i], lanes[i + width]);
  }
  return lanes[0];
}
inline float sum_of_lanes(const Vector& v) {
  return fold_lanes(v, [](float a, float b) { return a + b; });
}
inline float highest_lane(const Vector& v) {
  return fold_lanes(v, [](float a, float b) { return a > b ? a : b; });
}

// The even and the odd ones of 32 bf16 numbers.
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

// The lower and the upper four bits of 64 bytes.
inline WordVector low_halves(const WordVector& bytes) {
  WordVector out;
  for (std::size_t i = 0; i < kParts; ++i) out.part[i] = bytes.part[i] & 0x0f0f0f0fU;
  return out;
}
inline WordVector high_halves(const WordVector& bytes) {
  WordVector out;
  for (std::size_t i = 0; i < kParts; ++i) out.part[i] = (bytes.part[i] >> 4) & 0x0f0f0f0fU;
  return out;
}

// 16 f16 numbers.
inline Vector load_f16(const unsigned char* p) {
  Vector out;
#if defined(__AVX512VNNI__)
  // The masked form: g++ 12 warns of the plain one's own code.
  out.part[0] =
      (FloatRegister)_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__F16C__)
  for (std::size_t i = 0; i < kParts; ++i) {
    out.part[i] = (FloatRegister)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p) + i));
  }
#else
  for (std::size_t i = 0; i < kParts; ++i) {
    std::uint16_t halves[kLanes / kParts];
    __builtin_memcpy(halves, p + i * sizeof(halves), sizeof(halves));
    WordRegister bits;
    for (std::size_t j = 0; j < kLanes / kParts; ++j) bits[j] = halves[j];
    const WordRegister magnitude = bits & 0x7fffU;
    // A product with 2^112 moves the exponent from f16's bias to f32's, subnormals included.
    const FloatRegister scaled = (FloatRegister)(magnitude << 13) * 0x1p112F;
    const WordRegister special = (WordRegister)(magnitude >= 0x7c00U) & 0x7f800000U;  // infinities and NaN
    out.part[i] = (FloatRegister)((WordRegister)scaled | special | ((bits & 0x8000U) << 16));
  }
#endif
  return out;
}

inline std::int32_t four_bytes(const std::int8_t* x) {
  std::int32_t four;
  __builtin_memcpy(&four, x, sizeof(four));
  return four;
}

// sum[i] += w[4i..4i+3] . x[0..3], with w unsigned and x signed bytes; no sum of two products may leave 16
// bits.
inline void dot_bytes(const WordVector& w, const std::int8_t* x, IntVector& sum) {
#if defined(__AVX512VNNI__)
  sum.part[0] = (IntRegister)_mm512_dpbusd_epi32((__m512i)sum.part[0], (__m512i)w.part[0],
                                                 _mm512_set1_epi32(four_bytes(x)));
#elif defined(__AVX2__)
  const __m256i x4 = _mm256_set1_epi32(four_bytes(x));
  for (std::size_t i = 0; i < kParts; ++i) {
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)w.part[i], x4);
    sum.part[i] += (IntRegister)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
#else
  for (std::size_t i = 0; i < kParts; ++i) {
    for (int b = 0; b < 4; ++b) {
      sum.part[i] += (IntRegister)((w.part[i] >> (8 * b)) & 0xffU) * static_cast<std::int32_t>(x[b]);
    }
  }
#endif
}

// The same with w holding elements + 128, |element| <= 127. Adds 128 times the sum of x besides, unless
// kBiasedDotIsExact.
#if defined(__AVX2__) && !defined(__AVX512VNNI__)
constexpr bool kBiasedDotIsExact = true;
inline void dot_biased_bytes(const WordVector& w, const std::int8_t* x, IntVector& sum) {
  // 255 * 127 twice would leave 16 bits: multiply magnitudes, with the sign given to x.
  const __m256i x4 = _mm256_set1_epi32(four_bytes(x));
  for (std::size_t i = 0; i < kParts; ++i) {
    const __m256i element = _mm256_xor_si256((__m256i)w.part[i], _mm256_set1_epi8(-128));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(element), _mm256_sign_epi8(x4, element));
    sum.part[i] += (IntRegister)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
}
#else
constexpr bool kBiasedDotIsExact = false;
inline void dot_biased_bytes(const WordVector& w, const std::int8_t* x, IntVector& sum) {
  dot_bytes(w, x, sum);
}
#endif

// A group's integer sum becomes a part of the result: times the weights' scales and the token's.
inline void add_scaled(const IntVector& sum, const Vector& scales, float x_scale, Vector& result) {
  for (std::size_t i = 0; i < kParts; ++i) {
    result.part[i] += __builtin_convertvector(sum.part[i], FloatRegister) * (scales.part[i] * x_scale);
  }
}

}  // namespace
}  // namespace tp::kernels

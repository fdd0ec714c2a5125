// Loads panels with a ScaledFormat to vectors. For simd/*.cc only: everything is local to the translation
// unit.
#pragma once

#include "model/kernels/simd/matmul/quant_blocks.h"
#include "model/kernels/simd/pack/scaled_format.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

inline Vector to_floats(const IntVector& numbers) {
  Vector out;
  for (std::size_t i = 0; i < kParts; ++i)
    out.part[i] = __builtin_convertvector(numbers.part[i], FloatRegister);
  return out;
}

// 16 F8_E4M3 numbers divided by 256. Their bits are those of an f16 except for the exponent's bias, even for
// subnormals. NaNs become 480 / 256; see pack_scaled.
inline Vector load_e4m3_over_256(const unsigned char* p) {
  Vector out;
#if defined(__AVX512VNNI__) || defined(__F16C__)
  // Sign-extended and shifted, a byte has its sign in both high bits; the lower one becomes part of the
  // exponent.
  const __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i halves = _mm256_and_si256(_mm256_slli_epi16(words, 7), _mm256_set1_epi16(-0x4001));
#if defined(__AVX512VNNI__)
  out.part[0] = (FloatRegister)_mm512_maskz_cvtph_ps(0xffff, halves);
#else
  out.part[0] = (FloatRegister)_mm256_cvtph_ps(_mm256_castsi256_si128(halves));
  out.part[1] = (FloatRegister)_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
#endif
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

// The scales and zero points of a group, for 16 rows. With e4m3, scales are multiplied by 256.
struct GroupNumbers {
  Vector scales;
  Vector zero_points;
};

inline Vector load_scales(ScaleType type, const unsigned char* p) {
  if (type == ScaleType::f16) return load_f16(p);
  if (type == ScaleType::bf16) return load_bf16(p);
  Vector out;
  for (std::size_t i = 0; i < kParts; ++i)
    __builtin_memcpy(&out.part[i], p + i * kRegisterBytes, kRegisterBytes);
  return out;
}

inline GroupNumbers load_group(const ScaledFormat& format, const unsigned char* panel, std::size_t group) {
  const std::size_t rows = format.scale_rows;
  const std::size_t size = format.scale_bytes();
  const unsigned char* scales = panel + format.scales_place() + group * rows * size;
  const unsigned char* zeros = panel + format.zero_points_place() + group * rows;
  unsigned char own_scales[4 * kLanes];
  unsigned char own_zeros[kLanes];
  if (rows < kLanes) {
    for (std::size_t r = 0; r < kLanes; ++r) {
      const std::size_t place = rows == 1 ? 0 : panel[r];
      if (size == 4)
        __builtin_memcpy(own_scales + 4 * r, scales + 4 * place, 4);
      else
        __builtin_memcpy(own_scales + 2 * r, scales + 2 * place, 2);
      own_zeros[r] = format.has_zero_points ? zeros[place] : 0;
    }
    scales = own_scales;
    zeros = own_zeros;
  }
  GroupNumbers out{load_scales(format.scale_type, scales), broadcast(static_cast<float>(format.zero()))};
  if (format.has_zero_points) out.zero_points = to_floats(load_bytes(zeros));
  if (format.element == ScaledElement::e4m3) {
    for (std::size_t i = 0; i < kParts; ++i) out.scales.part[i] *= 256.0F;
  }
  return out;
}

// The values of 16 rows in a column.
template <ScaledElement kElement>
[[gnu::always_inline]] inline Vector values_of_column(const unsigned char* elements, std::size_t column,
                                                      const GroupNumbers& group) {
  Vector out;
  if constexpr (kElement == ScaledElement::e4m3) {
    out = load_e4m3_over_256(elements + column * kLanes);
    for (std::size_t i = 0; i < kParts; ++i) out.part[i] *= group.scales.part[i];
    return out;
  }
  IntVector numbers;
  if constexpr (kElement == ScaledElement::bytes) {
    numbers = load_bytes(elements + column * kLanes);
  } else {
    numbers = load_bytes(elements + column / 2 * kLanes);
    const int down = 4 * static_cast<int>(column % 2);
    for (std::size_t i = 0; i < kParts; ++i) numbers.part[i] = (numbers.part[i] >> down) & 15;
  }
  out = to_floats(numbers);
  for (std::size_t i = 0; i < kParts; ++i)
    out.part[i] = (out.part[i] - group.zero_points.part[i]) * group.scales.part[i];
  return out;
}

}  // namespace
}  // namespace tp::kernels

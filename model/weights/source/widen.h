// Widens stored elements to float32, exactly.
#pragma once

#include "tp/tensor.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tp {

inline float float_from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

// An E8M0 scale as bf16. Exponent 0 is subnormal, 255 stands for NaN.
inline std::uint16_t bf16_of_e8m0(std::uint8_t exponent) {
  if (exponent == 255) return 0x7fc0;
  return exponent == 0 ? std::uint16_t{0x0040} : static_cast<std::uint16_t>(exponent << 7);
}

// Includes subnormals, infinities and NaNs. Has no branches, so that loops are vectorised. Independent of the
// processor's flush-to-zero modes, because no intermediate value is a float32 subnormal.
inline float float_from_f16(std::uint16_t bits) {
  constexpr std::uint32_t exponent_mask = 0x7c00u << 13;
  constexpr std::uint32_t bias_difference = (127u - 15u) << 23;
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
  const std::uint32_t exponent = magnitude & exponent_mask;
  const std::uint32_t normal = magnitude + bias_difference;
  const std::uint32_t infinite = normal + bias_difference;  // exponent 31 to 255
  // 2^-14 * (1 + mantissa) - 2^-14
  constexpr std::uint32_t smallest_normal = bias_difference + (1u << 23);
  const float subnormal =
      std::bit_cast<float>(magnitude + smallest_normal) - std::bit_cast<float>(smallest_normal);
  // Chosen by masks: a compiler may not vectorise a float operation that it considers conditional.
  const std::uint32_t is_subnormal = 0u - ((exponent - 1) >> 31);  // all ones if the exponent is 0
  const std::uint32_t not_subnormal = exponent == exponent_mask ? infinite : normal;
  return std::bit_cast<float>(sign | (std::bit_cast<std::uint32_t>(subnormal) & is_subnormal) |
                              (not_subnormal & ~is_subnormal));
}

// Widens `count` F8_E4M3 elements (the variant without infinities, whose largest magnitude is a NaN) and
// multiplies them by `scale`.
void widen_f8_e4m3(const std::byte* from, std::size_t count, float scale, float* to);

// Widens `count` elements at `from`, which may be unaligned.
void widen(DType type, const std::byte* from, std::size_t count, float* to);

}  // namespace tp

#pragma once

#include <bit>
#include <cstdint>

namespace tp {

// e^x for x <= 0, with a relative error below 2e-7; exactly 1 at 0, and 0 below -87 (also at minus infinity).
// NaN becomes 0.
//
// Unlike std::exp it has no branches, so every compiler vectorizes loops over a vocabulary, for any
// instruction set.
inline float exp_nonpositive(float x) {
  constexpr float kLowest = -87.0F;  // below this, e^x approaches the denormal numbers
  // A bit mask, because g++ compiles conditional expressions to branches here and then cannot vectorize.
  const std::uint32_t keep = 0U - static_cast<std::uint32_t>(x >= kLowest);
  const float argument = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & keep);
  // Adding 1.5 * 2^23 leaves the rounded integer in the low bits of the mantissa.
  constexpr float kRounder = 12582912.0F;
  const float shifted = argument * 1.44269504F + kRounder;
  const float power = shifted - kRounder;
  // ln 2 in two parts. The first part has few enough bits that its product with `power` is exact.
  const float rest = (argument - power * 0.693359375F) + power * 2.12194440e-4F;
  float series = 1.0F / 5040.0F;
  series = series * rest + 1.0F / 720.0F;
  series = series * rest + 1.0F / 120.0F;
  series = series * rest + 1.0F / 24.0F;
  series = series * rest + 1.0F / 6.0F;
  series = series * rest + 0.5F;
  series = series * rest * rest + rest + 1.0F;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23;
  const float scale = std::bit_cast<float>(exponent);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(series * scale) & keep);
}

}  // namespace tp

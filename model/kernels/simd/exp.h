// exp and tanh for simd/*.cc, in forms that loops over them vectorize.
#pragma once

#include <cstdint>

namespace tp::kernels {
namespace {

// exp(x) to about 2 units in the last place: 2^n times a polynomial in the remainder, |r| <= ln(2)/2
// (coefficients: Taylor's, adjusted as in Cephes' expf). 0 below -87.3 and so for -infinity, saturates above
// 88.
inline float fast_exp(float x) {
  const float clamped = x < -87.3F ? -87.3F : (x > 88.0F ? 88.0F : x);
  const float scaled = clamped * 1.44269504088896341F;
  // Rounds to nearest by adding 1.5 * 2^23, whose unit in the last place is 1.
  const float shifted = scaled + 12582912.0F;
  const float n = shifted - 12582912.0F;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  union {
    std::int32_t bits;
    float value;
  } power;
  power.bits = (static_cast<std::int32_t>(n) + 127) << 23;
  return x < -87.3F ? 0.0F : p * power.value;
}

// tanh(x) to about 1e-7 of 1, which its results do not exceed.
inline float fast_tanh(float x) { return 1.0F - 2.0F / (fast_exp(2.0F * x) + 1.0F); }

}  // namespace
}  // namespace tp::kernels

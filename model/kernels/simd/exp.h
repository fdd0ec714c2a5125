// exp and tanh for simd/*.cc, in forms that loops over them vectorize.
#pragma once

#include <cstdint>

namespace tp::kernels {
namespace {

// exp(x) to about 2 units in the last place: 2^n times a polynomial in the remainder, |r| <= ln(2)/2
// (coefficients: Taylor's, adjusted as in Cephes' expf). 0 below -87.7 and so for -infinity, saturates above
// 88. For float and for registers of floats.
template <class Word, class Float>
inline Float exp_of(const Float& x) {
  const Float lowest = Float{} - 88.0F;
  const Float highest = Float{} + 88.0F;
  const Float above = lowest > x ? lowest : x;
  const Float clamped = highest < above ? highest : above;
  // Rounds to nearest by adding 1.5 * 2^23, whose unit in the last place is 1.
  const Float shifted = clamped * 1.44269504088896341F + 12582912.0F;
  const Float n = shifted - 12582912.0F;
  const Float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  Float p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  // The last bits of `shifted` are n; for -127, where x was clamped, 2^n becomes 0.
  const Word power = (__builtin_bit_cast(Word, shifted) << 23) + 0x3f800000U;
  return p * __builtin_bit_cast(Float, power);
}
inline float fast_exp(float x) { return exp_of<std::uint32_t>(x); }

// tanh(x) to about 1e-7 of 1, which its results do not exceed.
inline float fast_tanh(float x) { return 1.0F - 2.0F / (fast_exp(2.0F * x) + 1.0F); }

}  // namespace
}  // namespace tp::kernels

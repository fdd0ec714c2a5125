// exp and tanh for simd/*.cc, in registers of floats.
#pragma once

#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

// 1 / x to about a unit in the last place, for finite x other than 0. Dividing 16 numbers takes longer than
// the exponential before it. Instead, one step of Newton's method doubles the 14 bits of an estimate.
inline FloatRegister reciprocal(const FloatRegister& x) {
#if defined(__AVX512F__)
  const auto estimate = (FloatRegister)_mm512_maskz_rcp14_ps(0xffff, (__m512)x);
  return estimate * (2.0F - x * estimate);
#else
  return 1.0F / x;
#endif
}

// exp(x) to about 2 units in the last place: 2^n times a polynomial in the remainder, |r| <= ln(2)/2
// (coefficients: Taylor's, adjusted as in Cephes' expf). 0 below -87.7, and thus for -infinity; saturates
// above 88.
inline FloatRegister fast_exp(const FloatRegister& x) {
  const FloatRegister lowest = FloatRegister{} - 88.0F;
  const FloatRegister highest = 88.0F - FloatRegister{};
  const FloatRegister clamped = smaller(highest, larger(lowest, x));
  // Rounds to nearest by adding 1.5 * 2^23, whose unit in the last place is 1.
  const FloatRegister shifted = clamped * 1.44269504088896341F + 12582912.0F;
  const FloatRegister n = shifted - 12582912.0F;
  const FloatRegister r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  FloatRegister p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  // The last bits of `shifted` are n. For -127, if x was clamped, 2^n becomes 0.
  return p * (FloatRegister)(((WordRegister)shifted << 23) + 0x3f800000U);
}

// tanh(x) to an absolute error of about 1e-7; results never exceed 1.
inline FloatRegister fast_tanh(const FloatRegister& x) {
  return 1.0F - 2.0F * reciprocal(fast_exp(2.0F * x) + 1.0F);
}

}  // namespace
}  // namespace tp::kernels

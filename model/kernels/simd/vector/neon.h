// NEON's instructions for this folder's vectors. For simd/*.cc only: everything is local to the translation
// unit.
#pragma once

#include <cstdint>

#include <arm_neon.h>

namespace tp::kernels {
namespace {

// Widens 8 f16 numbers. `Register` is a GNU vector of 16 bytes.
template <class Register>
inline void neon_widen(float16x8_t halves, Register& lower, Register& upper) {
  lower = (Register)vcvt_f32_f16(vget_low_f16(halves));
  upper = (Register)vcvt_high_f32_f16(halves);
}

// Rounds 8 numbers to f16: to nearest, ties to even, and with a single NaN.
template <class Register>
inline uint16x8_t neon_halves(const Register& lower, const Register& upper) {
  const float16x8_t halves = vcvt_high_f16_f32(vcvt_f16_f32((float32x4_t)lower), (float32x4_t)upper);
  const uint16x8_t bits = vreinterpretq_u16_f16(halves);
  // Magnitudes above 0x7e00 are other NaNs.
  const uint16x8_t magnitude = vminq_u16(vandq_u16(bits, vdupq_n_u16(0x7fff)), vdupq_n_u16(0x7e00));
  return vorrq_u16(magnitude, vandq_u16(bits, vdupq_n_u16(0x8000)));
}

// Widens 16 signed bytes to the four registers of `out`.
template <class Register>
inline void neon_widen(int8x16_t bytes, Register* out) {
  const int16x8_t lower = vmovl_s8(vget_low_s8(bytes));
  const int16x8_t upper = vmovl_high_s8(bytes);
  out[0] = (Register)vmovl_s16(vget_low_s16(lower));
  out[1] = (Register)vmovl_high_s16(lower);
  out[2] = (Register)vmovl_s16(vget_low_s16(upper));
  out[3] = (Register)vmovl_high_s16(upper);
}
template <class Register>
inline void neon_widen(uint8x16_t bytes, Register* out) {
  const uint16x8_t lower = vmovl_u8(vget_low_u8(bytes));
  const uint16x8_t upper = vmovl_high_u8(bytes);
  out[0] = (Register)vmovl_u16(vget_low_u16(lower));
  out[1] = (Register)vmovl_high_u16(lower);
  out[2] = (Register)vmovl_u16(vget_low_u16(upper));
  out[3] = (Register)vmovl_high_u16(upper);
}

// Four bytes, four times.
inline int8x16_t neon_four_bytes(const signed char* x) {
  int four;
  __builtin_memcpy(&four, x, sizeof(four));
  return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

// sum[i] += w[4i..4i+3] . x[4i..4i+3]. At most one factor of each product is -128.
inline int32x4_t neon_dot(int32x4_t sum, int8x16_t w, int8x16_t x) {
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(sum, w, x);
#else
  const int16x8_t lower = vmull_s8(vget_low_s8(w), vget_low_s8(x));
  const int16x8_t upper = vmull_high_s8(w, x);
  return vpadalq_s16(sum, vpaddq_s16(lower, upper));
#endif
}

// 8 bytes of each of two rows.
inline uint8x16_t neon_two_rows(const void* first, const void* second) {
  return vcombine_u8(vld1_u8(static_cast<const std::uint8_t*>(first)),
                     vld1_u8(static_cast<const std::uint8_t*>(second)));
}

// Adds the products of two rows of x with two rows of w: [x0.w0, x0.w1, x1.w0, x1.w1].
#if defined(__ARM_FEATURE_MATMUL_INT8)
inline int32x4_t neon_multiply_rows(int32x4_t sum, uint8x16_t x, uint8x16_t w) {
  return vmmlaq_s32(sum, vreinterpretq_s8_u8(x), vreinterpretq_s8_u8(w));
}
#endif
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
inline float32x4_t neon_multiply_rows(float32x4_t sum, uint8x16_t x, uint8x16_t w) {
  return vbfmmlaq_f32(sum, vreinterpretq_bf16_u8(x), vreinterpretq_bf16_u8(w));
}
#endif

}  // namespace
}  // namespace tp::kernels

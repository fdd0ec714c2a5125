// Compiled once per instruction set; see simd.h for the restrictions.

#include "model/kernels/simd/elementwise.h"
#include "model/kernels/simd/vector/exp.h"

#include <math.h>

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2, ..."
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

void rms_norm(const float* x, const float* gain, std::size_t size, float eps, float* out) {
  float squares = 0.0F;
#pragma omp simd reduction(+ : squares)
  for (std::size_t i = 0; i < size; ++i) squares += x[i] * x[i];
  const float scale = 1.0F / sqrtf(squares / static_cast<float>(size) + eps);
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) out[i] = x[i] * scale * gain[i];
}

// Computes the variance from differences from the mean, so that a relatively large mean costs no digits.
void layer_norm(const float* x, const float* gain, const float* bias, std::size_t size, float eps,
                float* out) {
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < size; ++i) sum += x[i];
  const float mean = sum / static_cast<float>(size);
  float squares = 0.0F;
#pragma omp simd reduction(+ : squares)
  for (std::size_t i = 0; i < size; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const float scale = 1.0F / sqrtf(squares / static_cast<float>(size) + eps);
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) out[i] = (x[i] - mean) * scale * gain[i] + bias[i];
}

void add(const float* x, std::size_t size, float* y) {
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) y[i] += x[i];
}

struct Silu {
  static FloatRegister of(const FloatRegister& x) { return x * reciprocal(1.0F + fast_exp(-x)); }
};

struct Sigmoid {
  static FloatRegister of(const FloatRegister& x) { return reciprocal(1.0F + fast_exp(-x)); }
};

// The tail of the normal distribution, 1 - Phi(|x|), to 1e-7. Source: Abramowitz and Stegun, Handbook of
// Mathematical Functions, 7.1.26, with x / sqrt(2) for x.
struct Gelu {
  static FloatRegister of(const FloatRegister& x) {
    // Further from 0, the tail underflows.
    const FloatRegister distance = smaller(x < 0.0F ? -x : x, 100.0F - FloatRegister{});
    const FloatRegister t = reciprocal(1.0F + 0.3275911F * 0.70710678F * distance);
    FloatRegister p = t * 1.061405429F - 1.453152027F;
    p = p * t + 1.421413741F;
    p = p * t - 0.284496736F;
    p = p * t + 0.254829592F;
    const FloatRegister tail = 0.5F * p * t * fast_exp(-0.5F * x * x);
    return x * (x < 0.0F ? tail : 1.0F - tail);
  }
};

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), with u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanh {
  static FloatRegister of(const FloatRegister& x) {
    const FloatRegister u = 0.79788456080F * (x + 0.044715F * x * x * x);
    return x * reciprocal(1.0F + fast_exp(-2.0F * u));
  }
};

struct Relu {
  static FloatRegister of(const FloatRegister& x) { return x > 0.0F ? x : FloatRegister{}; }
};

struct ReluSquared {
  static FloatRegister of(const FloatRegister& x) { return x > 0.0F ? x * x : FloatRegister{}; }
};

struct ClampedSwiglu {
  static constexpr float kLimit = 7.0F;
  static FloatRegister of(const FloatRegister& x) {
    const FloatRegister y = smaller(x, kLimit - FloatRegister{});
    return y * reciprocal(1.0F + fast_exp(-1.702F * y));
  }
  static float gated(float up) {
    const float clamped = up < -kLimit ? -kLimit : up > kLimit ? kLimit : up;
    return clamped + 1.0F;
  }
};

// out = body(x), 16 elements at a time.
template <class Body>
inline void map(const float* x, std::size_t size, float* out, const Body& body) {
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    Vector v = load(x + i);
    for (FloatRegister& part : v.part) part = body(part);
    store(v, out + i);
  }
  if (i == size) return;
  float rest[kLanes] = {};
  for (std::size_t j = 0; i + j < size; ++j) rest[j] = x[i + j];
  Vector v = load(rest);
  for (FloatRegister& part : v.part) part = body(part);
  store(v, rest);
  for (std::size_t j = 0; i + j < size; ++j) out[i + j] = rest[j];
}

void softcap(float cap, float* x, std::size_t size) {
  const float inverse = 1.0F / cap;
  map(x, size, x, [&](const FloatRegister& part) { return cap * fast_tanh(part * inverse); });
}

// Near 0, exp(x) - 1 would lose digits, but its Taylor series does not.
void xielu(const Xielu& function, float* x, std::size_t size) {
  map(x, size, x, [&](const FloatRegister& part) {
    const FloatRegister low = smaller(part, function.eps - FloatRegister{});
    const FloatRegister series = low * (1.0F + low * (0.5F + low * (0.16666667F + low * 0.041666668F)));
    const FloatRegister expm1 = low > -0.0625F ? series : fast_exp(low) - 1.0F;
    const FloatRegister curve =
        part > 0.0F ? function.positive * part * part : function.negative * (expm1 - part);
    return curve + function.linear * part;
  });
}

void clip(float limit, float* x, std::size_t size) {
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) {
    const float low = x[i] < -limit ? -limit : x[i];
    x[i] = low > limit ? limit : low;
  }
}

template <class Function>
void activate(float* x, std::size_t size) {
  map(x, size, x, Function::of);
}

template <class Function>
void activate_and_multiply(const float* gate, const float* up, std::size_t size, float* out) {
  constexpr std::size_t kStrip = 256;  // fits in the first-level cache
  float activated[kStrip];
  for (std::size_t begin = 0; begin < size; begin += kStrip) {
    const std::size_t count = size - begin < kStrip ? size - begin : kStrip;
    map(gate + begin, count, activated, Function::of);
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (requires { Function::gated(up[begin + i]); }) {
        out[begin + i] = activated[i] * Function::gated(up[begin + i]);
      } else {
        out[begin + i] = activated[i] * up[begin + i];
      }
    }
  }
}

template <class Function>
constexpr ActivationKernels kernels_of = {activate<Function>, activate_and_multiply<Function>};

}  // namespace

extern const ElementwiseKernels kElementwiseKernels;
const ElementwiseKernels kElementwiseKernels = {rms_norm,
                                                layer_norm,
                                                add,
                                                softcap,
                                                kernels_of<Silu>,
                                                kernels_of<Gelu>,
                                                kernels_of<GeluTanh>,
                                                kernels_of<Relu>,
                                                kernels_of<ReluSquared>,
                                                kernels_of<ClampedSwiglu>,
                                                kernels_of<Sigmoid>,
                                                xielu,
                                                clip};

}  // namespace tp::kernels::TP_ISA_NAMESPACE

// Compiled once for every instruction set; see simd.h for what may not be used here.

#include "model/kernels/simd/exp.h"
#include "model/kernels/simd/simd.h"
#include "model/kernels/simd/vector.h"

#include <math.h>

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2 or avx512"
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

// The sum of `sum`'s elements and of a[i] * b[i] for the `size` < 16 elements that fill no vector.
inline float finish(const Vector& sum, const float* a, const float* b, std::size_t size) {
  float total = 0.0F;
  for (std::size_t i = 0; i < size; ++i) total += a[i] * b[i];
  return sum_of_lanes(sum) + total;
}

// This far ahead of its use a cache line of weights is fetched: behind the end of a row, the next one's
// begin.
constexpr std::size_t kPrefetchFloats = 256;

// One pass over a weight row serves `Tokens` tokens.
template <std::size_t Tokens>
inline void dot_row(const float* row, std::size_t in_features, const float* x, std::size_t x_stride, float* y,
                    std::size_t y_stride) {
  // A single token needs several sums in flight to keep the multipliers busy.
  constexpr std::size_t kChains = Tokens == 1 ? 4 / kParts + (kParts == 4) : 1;
  Vector sums[Tokens][kChains] = {};
  std::size_t i = 0;
  for (; i + 16 * kChains <= in_features; i += 16 * kChains) {
    for (std::size_t c = 0; c < kChains; ++c) {
      const Vector w = load(row + i + 16 * c);
      __builtin_prefetch(row + i + 16 * c + kPrefetchFloats);
      for (std::size_t t = 0; t < Tokens; ++t) {
        multiply_add(w, load(x + t * x_stride + i + 16 * c), sums[t][c]);
      }
    }
  }
  for (; i + 16 <= in_features; i += 16) {
    const Vector w = load(row + i);
    for (std::size_t t = 0; t < Tokens; ++t) multiply_add(w, load(x + t * x_stride + i), sums[t][0]);
  }
  for (std::size_t t = 0; t < Tokens; ++t) {
    Vector sum = sums[t][0];
    for (std::size_t c = 1; c < kChains; ++c) sum += sums[t][c];
    y[t * y_stride] = finish(sum, row + i, x + t * x_stride + i, in_features - i);
  }
}

void matvec(const float* weight, std::size_t w_stride, std::size_t out_features, std::size_t in_features,
            const float* x, std::size_t x_stride, std::size_t tokens, float* y, std::size_t y_stride) {
  for (std::size_t o = 0; o < out_features; ++o) {
    const float* row = weight + o * w_stride;
    std::size_t t = 0;
    for (; t + 4 <= tokens; t += 4) {
      dot_row<4>(row, in_features, x + t * x_stride, x_stride, y + t * y_stride + o, y_stride);
    }
    for (; t < tokens; ++t) {
      dot_row<1>(row, in_features, x + t * x_stride, x_stride, y + t * y_stride + o, y_stride);
    }
  }
}

void rotate_halves(float* x, const float* cosine, const float* sine, std::size_t half) {
#pragma omp simd
  for (std::size_t i = 0; i < half; ++i) {
    const float first = x[i];
    const float second = x[i + half];
    x[i] = first * cosine[i] - second * sine[i];
    x[i + half] = second * cosine[i] + first * sine[i];
  }
}

}  // namespace

extern const SimdKernels kKernels;
const SimdKernels kKernels = {matvec, rotate_halves};

}  // namespace tp::kernels::TP_ISA_NAMESPACE

// Compiled once per instruction set; see simd.h for the restrictions.

#include "model/kernels/simd/delta_rule.h"
#include "model/kernels/simd/favor.h"
#include "model/kernels/simd/index_scores.h"
#include "model/kernels/simd/selective_scan.h"
#include "model/kernels/simd/simd.h"
#include "model/kernels/simd/vector/vector.h"
#include "model/kernels/simd/wkv.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2 or avx512"
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

// The sum of `sum`'s elements, and of a[i] * b[i] for the last `size` < 16 elements, which fill no vector.
inline float finish(const Vector& sum, const float* a, const float* b, std::size_t size) {
  float total = 0.0F;
  for (std::size_t i = 0; i < size; ++i) total += a[i] * b[i];
  return sum_of_elements(sum) + total;
}

// Distance at which a cache line of weights is prefetched. Beyond the end of a row, this is the beginning of
// the next row.
constexpr std::size_t kPrefetchFloats = 256;

void matvec(const float* weight, std::size_t w_stride, std::size_t out_features, std::size_t in_features,
            const float* x, float* y) {
  // Several sums in flight keep the multipliers busy.
  constexpr std::size_t kSums = 4 / kParts + (kParts == 4);
  for (std::size_t o = 0; o < out_features; ++o) {
    const float* row = weight + o * w_stride;
    Vector sums[kSums] = {};
    std::size_t i = 0;
    for (; i + kLanes * kSums <= in_features; i += kLanes * kSums) {
      for (std::size_t s = 0; s < kSums; ++s) {
        __builtin_prefetch(row + i + kLanes * s + kPrefetchFloats);
        multiply_add(load(row + i + kLanes * s), load(x + i + kLanes * s), sums[s]);
      }
    }
    for (; i + kLanes <= in_features; i += kLanes) multiply_add(load(row + i), load(x + i), sums[0]);
    for (std::size_t s = 1; s < kSums; ++s) sums[0] += sums[s];
    y[o] = finish(sums[0], row + i, x + i, in_features - i);
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
const SimdKernels kKernels = {matvec,       rotate_halves, scan_dots,   scan_faded_dots, scan_faded_keys,
                              scan_weights, scan_tokens,   scan_anchor, largest_of,      exponentials,
                              favor_step,   scan_channels, scan_wkv,    index_scores,    kIndexPanels};

}  // namespace tp::kernels::TP_ISA_NAMESPACE

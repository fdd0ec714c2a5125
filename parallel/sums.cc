#include "parallel/sums.h"

#include "tp/internal/threads.h"

#include <algorithm>
#include <cstring>

// Compiled for wider vectors besides. The loader chooses before a sanitizer is ready to be called; clang has
// no macro that says so.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(TP_SANITIZE_THREADS) && \
    !defined(__SANITIZE_ADDRESS__)
#define TP_FOR_WIDE_VECTORS __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define TP_FOR_WIDE_VECTORS
#endif

namespace tp {
namespace {

// Floats in a strip of the work that threads share. Pieces that pass through shared memory are less than
// kMinParallelWork.
constexpr std::size_t kStrip = 1 << 14;

// A run is summed over all addends before the next, in a local array that the compiler keeps in vectors.
template <std::size_t kRun>
[[gnu::always_inline]] inline void sum_run(std::span<const float* const> addends, std::size_t begin,
                                           float* out) {
  float sum[kRun];
  std::memcpy(sum, addends[0] + begin, sizeof(sum));
  for (std::size_t n = 1; n < addends.size(); ++n) {
    for (std::size_t i = 0; i < kRun; ++i) sum[i] += addends[n][begin + i];
  }
  std::memcpy(out + begin, sum, sizeof(sum));
}

TP_FOR_WIDE_VECTORS void sum_range(std::span<const float* const> addends, std::size_t begin, std::size_t end,
                                   float* out) {
  constexpr std::size_t kRun = 64;
  std::size_t i = begin;
  for (; i + kRun <= end; i += kRun) sum_run<kRun>(addends, i, out);
  for (; i < end; ++i) sum_run<1>(addends, i, out);
}

}  // namespace

void sum_of(std::span<const float* const> addends, std::size_t size, float* out) {
#pragma omp parallel for schedule(static) if (size >= kMinParallelWork)
  for (std::size_t begin = 0; begin < size; begin += kStrip) {
    sum_range(addends, begin, std::min(begin + kStrip, size), out);
  }
}

}  // namespace tp

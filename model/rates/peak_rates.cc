#include "model/rates/peak_rates.h"

#include "model/kernels/simd/matmul/packed.h"
#include "model/memory/buffer.h"
#include "parallel/machine/stopwatch.h"

#include <algorithm>

#include <omp.h>

namespace tp {
namespace {

// The best rate of several tries, in units per second. Every thread runs `work`, which returns the thread's
// units.
template <class Work>
double best_rate(const Work& work) {
  constexpr int kTries = 5;
  double best = 0.0;
  for (int i = 0; i < kTries; ++i) {
    double units = 0.0;
    const Stopwatch watch;
#pragma omp parallel reduction(+ : units)
    units += work();
    best = std::max(best, units / watch.seconds());
  }
  return best;
}

double streaming() {
  // Larger than caches. The threads that read the memory touch it first.
  constexpr std::size_t kBytes = std::size_t{512} << 20;
  const Buffer<unsigned char> memory(kBytes, "measuring bandwidth");
  const auto part = [&](auto&& body) {
    const auto threads = static_cast<std::size_t>(omp_get_num_threads());
    const std::size_t bytes = kBytes / threads / 512 * 512;
    body(memory.data() + bytes * static_cast<std::size_t>(omp_get_thread_num()), bytes);
    return static_cast<double>(bytes);
  };
#pragma omp parallel
  part([](unsigned char* data, std::size_t bytes) {
    std::fill_n(data, bytes, static_cast<unsigned char>(1));
  });
  return best_rate([&] {
    return part([](const unsigned char* data, std::size_t bytes) {
      volatile float sink = kernels::peak_kernels().stream(data, bytes);
      static_cast<void>(sink);
    });
  });
}

double arithmetic(double (*multiply)(std::size_t)) {
  constexpr std::size_t kRounds = 2'000'000;
  return multiply == nullptr ? 0.0 : best_rate([&] { return multiply(kRounds); });
}

}  // namespace

double local_streaming_rate() { return streaming(); }

PeakRates local_peak_rates() {
  const kernels::PeakKernels peaks = kernels::peak_kernels();
  return {streaming(), arithmetic(peaks.multiply_f32), arithmetic(peaks.multiply_bf16),
          arithmetic(peaks.multiply_int8)};
}

}  // namespace tp

#include "parallel/shard/sums.h"

#include "parallel/shard/vector_clones.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tp {
namespace {

// Elements per strip. Work is divided among threads in whole strips.
constexpr std::size_t kStrip = 1 << 12;

// Calls body(begin, end) for each strip, on several threads if the sum is large.
template <class Body>
void for_strips(std::size_t size, const Body& body) {
#pragma omp parallel for schedule(static) if (size > kSerialSum)
  for (std::size_t begin = 0; begin < size; begin += kStrip) body(begin, std::min(begin + kStrip, size));
}

// Sums elements [begin, begin + kRun) of all addends into `sum`, which the compiler keeps in vector
// registers.
template <std::size_t kRun, class T>
[[gnu::always_inline]] inline void add_run(std::span<const T* const> addends, std::size_t begin,
                                           T (&sum)[kRun]) {
  std::memcpy(sum, addends[0] + begin, sizeof(sum));
  for (std::size_t n = 1; n < addends.size(); ++n) {
    for (std::size_t i = 0; i < kRun; ++i) sum[i] += addends[n][begin + i];
  }
}

template <std::size_t kRun, class T>
[[gnu::always_inline]] inline void sum_run(std::span<const T* const> addends, std::size_t begin, T* out) {
  T sum[kRun];
  add_run<kRun, T>(addends, begin, sum);
  std::memcpy(out + begin, sum, sizeof(sum));
}

template <std::size_t kRun, class T>
[[gnu::always_inline]] inline void put_run(std::span<const T* const> addends, std::size_t begin,
                                           const SumTarget& target) {
  T sum[kRun];
  add_run<kRun, T>(addends, begin, sum);
  float* const out = target.floats + begin;
  if (target.adds) {
    for (std::size_t i = 0; i < kRun; ++i) out[i] += static_cast<float>(sum[i]);
  } else {
    for (std::size_t i = 0; i < kRun; ++i) out[i] = static_cast<float>(sum[i]);
  }
}

constexpr std::size_t kRun = 64;

template <class T>
[[gnu::always_inline]] inline void sum_range(std::span<const T* const> addends, std::size_t begin,
                                             std::size_t end, T* out) {
  std::size_t i = begin;
  for (; i + kRun <= end; i += kRun) sum_run<kRun>(addends, i, out);
  for (; i < end; ++i) sum_run<1>(addends, i, out);
}

TP_FOR_WIDE_VECTORS void sum_floats(std::span<const float* const> addends, std::size_t begin, std::size_t end,
                                    float* out) {
  sum_range(addends, begin, end, out);
}

TP_FOR_WIDE_VECTORS void sum_doubles(std::span<const double* const> addends, std::size_t begin,
                                     std::size_t end, double* out) {
  sum_range(addends, begin, end, out);
}

template <class T>
[[gnu::always_inline]] inline void put_range(std::span<const T* const> addends, std::size_t begin,
                                             std::size_t end, const SumTarget& target) {
  std::size_t i = begin;
  for (; i + kRun <= end; i += kRun) put_run<kRun>(addends, i, target);
  for (; i < end; ++i) put_run<1>(addends, i, target);
}

TP_FOR_WIDE_VECTORS void put_floats(std::span<const float* const> addends, std::size_t begin, std::size_t end,
                                    const SumTarget& target) {
  put_range(addends, begin, end, target);
}

TP_FOR_WIDE_VECTORS void put_doubles(std::span<const double* const> addends, std::size_t begin,
                                     std::size_t end, const SumTarget& target) {
  put_range(addends, begin, end, target);
}

}  // namespace

void sum_of(std::span<const float* const> addends, std::size_t size, float* out) {
  for_strips(size, [&](std::size_t begin, std::size_t end) { sum_floats(addends, begin, end, out); });
}

void sum_of(std::span<const double* const> addends, std::size_t size, double* out) {
  for_strips(size, [&](std::size_t begin, std::size_t end) { sum_doubles(addends, begin, end, out); });
}

void add_row(const float* x, std::size_t size, float* y) {
  const float* const addends[] = {y, x};
  sum_floats(addends, 0, size, y);
}

void add_row(const double* x, std::size_t size, double* y) {
  const double* const addends[] = {y, x};
  sum_doubles(addends, 0, size, y);
}

double largest_magnitude(std::span<const double> values) {
  double largest = 0.0;
#pragma omp parallel for simd reduction(max : largest) if (values.size() > kSerialSum)
  for (std::size_t i = 0; i < values.size(); ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

void sum_to(std::span<const float* const> addends, std::size_t size, const SumTarget& target) {
  for_strips(size, [&](std::size_t begin, std::size_t end) { put_floats(addends, begin, end, target); });
}

void sum_to(std::span<const double* const> addends, std::size_t size, const SumTarget& target) {
  for_strips(size, [&](std::size_t begin, std::size_t end) { put_doubles(addends, begin, end, target); });
}

}  // namespace tp

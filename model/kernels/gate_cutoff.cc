#include "model/kernels/gate_cutoff.h"

#include "model/kernels/projection_norm.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace tp::kernels {
namespace {

double rounded(double sum) {
  constexpr double kGrid = 1.5 * kExactSquaresBelow;  // doubles around it have a last place of 2^-22
  return (sum + kGrid) - kGrid;
}

void add_moments(const float* x, std::size_t columns, double* sums) {
  double sum = 0.0;
  double squares = 0.0;
#pragma omp simd reduction(+ : sum, squares)
  for (std::size_t i = 0; i < columns; ++i) {
    const double element = x[i];
    sum += element;
    squares += element * element;
  }
  sums[0] += rounded(sum);
  sums[1] += rounded(squares);
}

}  // namespace

void sum_moments(TensorView<const float> x, std::size_t leaf, TensorView<double> sums) {
  assert(sums.rows() == x.rows() && sums.columns() == 2);
  const std::size_t step = leaf != 0 ? leaf : std::max<std::size_t>(1, x.columns());
  for (std::size_t token = 0; token < sums.rows() && !sums.empty(); ++token)
    std::fill_n(sums.row(token), 2, 0.0);
  if (x.empty()) return;
  for_thread_parts(x.rows(), x.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      for (std::size_t i = 0; i < x.columns(); i += step)
        add_moments(x.row(token) + i, std::min(step, x.columns() - i), sums.row(token));
    }
  });
}

void cut_off(TensorView<const float> sums, std::size_t size, float deviations, TensorView<float> x) {
  assert(sums.rows() == x.rows() && sums.columns() == 2);
  if (x.empty()) return;
  for_thread_parts(x.rows(), x.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      const double mean = static_cast<double>(sums(token, 0)) / static_cast<double>(size);
      const double square = static_cast<double>(sums(token, 1)) / static_cast<double>(size);
      const double deviation = std::sqrt(std::max(0.0, square - mean * mean));
      const auto cutoff = static_cast<float>(mean + deviations * deviation);
      float* const row = x.row(token);
      for (std::size_t i = 0; i < x.columns(); ++i) row[i] = std::max(0.0F, row[i] - cutoff);
    }
  });
}

}  // namespace tp::kernels

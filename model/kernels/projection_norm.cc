#include "model/kernels/projection_norm.h"

#include "tp/internal/threads.h"

#include <cassert>
#include <cmath>

namespace tp::kernels {
namespace {

// Doubles around this number have a unit in the last place of 2^-22.
constexpr double kGrid = 1.5 * kExactSquaresBelow;

double squares_of_head(const float* x, std::size_t head_dim) {
  float squares = 0.0F;
#pragma omp simd reduction(+ : squares)
  for (std::size_t i = 0; i < head_dim; ++i) squares += x[i] * x[i];
  return (static_cast<double>(squares) + kGrid) - kGrid;
}

}  // namespace

void sum_squares(TensorView<const float> x, std::size_t head_dim, TensorView<double> sums) {
  assert(x.columns() % head_dim == 0 && sums.rows() == x.rows() && sums.columns() == 1);
  if (sums.empty()) return;
  for_thread_parts(x.rows(), x.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      double sum = 0.0;
      for (std::size_t i = 0; i < x.columns(); i += head_dim)
        sum += squares_of_head(x.row(token) + i, head_dim);
      sums(token, 0) = sum;
    }
  });
}

void scale_to_norm(TensorView<float> x, TensorView<const float> sums, std::size_t size, float eps,
                   std::span<const float> gain) {
  assert(gain.size() == x.columns() && sums.rows() == x.rows());
  if (x.empty()) return;
  for_thread_parts(x.rows(), x.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      const float scale = 1.0F / std::sqrt(sums(token, 0) / static_cast<float>(size) + eps);
      float* const row = x.row(token);
      for (std::size_t i = 0; i < gain.size(); ++i) row[i] = row[i] * scale * gain[i];
    }
  });
}

}  // namespace tp::kernels

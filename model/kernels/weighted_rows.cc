#include "model/kernels/weighted_rows.h"

#include "tp/internal/threads.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tp::kernels {
namespace {

constexpr std::size_t kTile = 64;  // rows of the weight that are unpacked together

// Doubles of this magnitude have the unit 2^-30 in their last place.
constexpr double kGrid = 1.5 * 4194304.0;

double on_grid(double value) { return (value + kGrid) - kGrid; }

// The next rows of the weight, from `row` on, with a factor other than 0; at most kTile.
std::vector<std::size_t> next_used(TensorView<const float> factors, std::size_t& row) {
  std::vector<std::size_t> used;
  for (; row < factors.columns() && used.size() < kTile; ++row) {
    bool is_used = false;
    for (std::size_t i = 0; i < factors.rows(); ++i) is_used = is_used || factors(i, row) != 0.0F;
    if (is_used) used.push_back(row);
  }
  return used;
}

// Adds the products with columns [begin, end) of a tile, which holds the rows `used`.
void add_tile(TensorView<const float> factors, const std::vector<std::size_t>& used,
              TensorView<const float> tile, std::size_t begin, std::size_t end, TensorView<double> sums) {
  for (std::size_t i = 0; i < factors.rows(); ++i) {
    double* const sum = sums.row(i);
    for (std::size_t j = 0; j < used.size(); ++j) {
      const double factor = factors(i, used[j]);
      if (factor == 0.0) continue;
      const float* const row = tile.row(j);
      for (std::size_t column = begin; column < end; ++column)
        sum[column] += on_grid(factor * static_cast<double>(row[column]));
    }
  }
}

}  // namespace

void sum_weighted_rows(const PackedView& weight, TensorView<const float> factors, TensorView<double> sums) {
  if (sums.empty()) return;
  const std::size_t size = sums.columns() - 1;
  std::vector<float> unpacked(kTile * size);
  const TensorView<float> tile(unpacked.data(), kTile, size);
  for (std::size_t i = 0; i < sums.rows(); ++i) std::fill_n(sums.row(i), sums.columns(), 0.0);
  for (std::size_t row = 0; row < factors.columns();) {
    const std::vector<std::size_t> used = next_used(factors, row);
    for_thread_parts(used.size(), used.size() * size, [&](std::size_t begin, std::size_t end) {
      for (std::size_t j = begin; j < end; ++j) unpack_row(weight, used[j], tile.row(j));
    });
    for_thread_parts(size, used.size() * size * factors.rows(), [&](std::size_t begin, std::size_t end) {
      add_tile(factors, used, tile, begin, end, sums);
    });
    for (std::size_t i = 0; i < factors.rows(); ++i) {
      for (const std::size_t j : used) sums(i, size) += on_grid(factors(i, j));
    }
  }
}

}  // namespace tp::kernels

#include "model/kernels/ranking.h"

#include "model/kernels/simd/simd.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace tp::kernels {
namespace {

// NaN before everything, then larger values, then smaller indices.
bool comes_before(const Ranked& a, const Ranked& b) {
  if (std::isnan(a.value) != std::isnan(b.value)) return std::isnan(a.value);
  if (a.value != b.value && !std::isnan(a.value)) return a.value > b.value;
  return a.index < b.index;
}

}  // namespace

void top_k(std::span<const float> row, std::span<Ranked> best) {
  assert(best.size() <= row.size());
  if (best.empty()) return;
  std::size_t held = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    // A heap with the worst of the best on top; most elements are turned away by one comparison.
    const Ranked candidate{static_cast<std::int32_t>(i), row[i]};
    if (held < best.size()) {
      best[held++] = candidate;
      std::push_heap(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(held), comes_before);
    } else if (!(candidate.value <= best.front().value) && comes_before(candidate, best.front())) {
      std::pop_heap(best.begin(), best.end(), comes_before);
      best.back() = candidate;
      std::push_heap(best.begin(), best.end(), comes_before);
    }
  }
  std::sort_heap(best.begin(), best.end(), comes_before);
}

LogSumParts log_sum_parts(std::span<const float> row) {
  if (row.empty()) return {-std::numeric_limits<float>::infinity(), 0.0};
  const float max = simd().max(row.data(), row.size());
  return {max, simd().sum_exp(row.data(), row.size(), max)};
}

}  // namespace tp::kernels

// The few numbers of a row of logits that sampling needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tp::kernels {

struct Ranked {
  std::int32_t index = 0;
  float value = 0.0F;
};

// Writes the best.size() largest elements of `row`, the largest first, equals by ascending index. NaN counts
// as largest, so that it is seen. Needs best.size() <= row.size().
void top_k(std::span<const float> row, std::span<Ranked> best);

struct LogSumParts {
  float max = 0.0F;      // the largest element, -infinity for an empty row
  double sum_exp = 0.0;  // the sum of exp(x - max)
};
LogSumParts log_sum_parts(std::span<const float> row);

}  // namespace tp::kernels

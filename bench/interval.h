// The median of alternating measurements, and how certain it is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tp {

// From 12 measurements on, the interval contains the median with at least 96 %.
struct Interval {
  double low = 0.0;
  double median = 0.0;
  double high = 0.0;
};

// `values`: at least one.
inline Interval interval_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t edge = values.size() / 5;
  return {values[edge], values[values.size() / 2], values[values.size() - 1 - edge]};
}

}  // namespace tp

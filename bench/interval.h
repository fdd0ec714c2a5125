// The median of alternating measurements and its confidence interval.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tp {

// The interval of at least 12 measurements contains the median with a probability of 96 % or more.
struct Interval {
  double low = 0.0;
  double median = 0.0;
  double high = 0.0;
};

// `values` must not be empty.
inline Interval interval_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t edge = values.size() / 5;
  return {values[edge], values[values.size() / 2], values[values.size() - 1 - edge]};
}

// Measurements of two programs, and the ratio other / one of each pair.
struct Pairs {
  Interval one;
  Interval other;
  Interval ratio;
};

// Calls one() and other() `count` times and collects the measurements that they return. Pairs start with
// one() and other() alternately.
template <class One, class Other>
Pairs measure_pairs(std::size_t count, const One& measure_one, const Other& measure_other) {
  std::vector<double> one;
  std::vector<double> other;
  std::vector<double> ratios;
  for (std::size_t pair = 0; pair < count; ++pair) {
    if (pair % 2 == 0) one.push_back(measure_one());
    other.push_back(measure_other());
    if (pair % 2 == 1) one.push_back(measure_one());
    ratios.push_back(other.back() / one.back());
  }
  return {interval_of(one), interval_of(other), interval_of(ratios)};
}

}  // namespace tp

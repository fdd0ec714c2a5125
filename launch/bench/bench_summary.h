// Summarizes repeated measurements.
#pragma once

#include "launch/bench/bench_row.h"
#include "runtime/plan/step_cost.h"
#include "tp/peak_rates.h"

#include <cstddef>
#include <vector>

namespace tp {

struct BenchSummary {
  BenchRow row;          // the run with the median speed
  std::size_t runs = 1;  // number of runs that count
  double min = 0.0;      // tokens/s of the slowest run
  double max = 0.0;
  PeakRates before{};  // the machine's peak rates before the run
  PeakRates after{};
  PeakRates peaks{};  // mean of before and after
  StepCost work{};    // work of one step of the row

  // The difference between the fastest and the slowest run, as a fraction of the median.
  double spread() const { return (max - min) / row.tokens_per_second(); }
};

// Summarizes at least one run. If there are several runs, the first one only warms up caches and clocks, so
// it doesn't count.
BenchSummary summary_of(std::vector<BenchRow> runs);

}  // namespace tp

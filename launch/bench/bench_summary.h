// What repeated measurements amount to.
#pragma once

#include "launch/bench/bench_row.h"
#include "runtime/plan/step_cost.h"
#include "tp/peak_rates.h"

#include <cstddef>
#include <vector>

namespace tp {

struct BenchSummary {
  BenchRow row;          // the run with the median speed
  std::size_t runs = 1;  // that count
  double least = 0.0;    // tokens/s of the slowest of them, and of the fastest
  double most = 0.0;
  PeakRates before{};  // of the machine
  PeakRates after{};
  PeakRates peaks{};  // the mean of the two
  StepCost work{};    // of one of the row's steps

  // How far the runs are apart, as a part of the median.
  double spread() const { return (most - least) / row.tokens_per_second(); }
};

// Of several runs the first one, in which caches and clocks settle, does not count. There is at least one.
BenchSummary summary_of(std::vector<BenchRow> runs);

}  // namespace tp

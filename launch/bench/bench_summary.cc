#include "launch/bench/bench_summary.h"

#include <algorithm>
#include <utility>

namespace tp {

BenchSummary summary_of(std::vector<BenchRow> runs) {
  if (runs.size() > 1) runs.erase(runs.begin());
  std::ranges::sort(runs, {}, &BenchRow::tokens_per_second);
  const std::size_t median = (runs.size() - 1) / 2;
  BenchSummary summary{.row = {},
                       .runs = runs.size(),
                       .min = runs.front().tokens_per_second(),
                       .max = runs.back().tokens_per_second()};
  summary.row = std::move(runs[median]);
  return summary;
}

}  // namespace tp

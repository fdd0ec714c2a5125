#include "runtime/setup/measured_split.h"

#include "model/rates/peak_rates.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/machine/processors.h"
#include "runtime/setup/rank_report.h"

#include <algorithm>

namespace tp {

std::vector<double> split_of(std::span<const double> rates, const Placement& placement) {
  std::vector<double> split(rates.size());
  for (const std::vector<std::size_t>& host : placement.hosts) {
    double sum = 0.0;
    for (const std::size_t rank : host) sum += rates[rank];
    for (const std::size_t rank : host) split[rank] = sum / static_cast<double>(host.size());
  }
  const auto [slowest, fastest] = std::ranges::minmax(split);
  if (fastest < kEqualHosts * slowest) split.clear();
  return split;
}

std::vector<double> measure_split(Communicator& comm, std::size_t threads) {
  if (comm.placement().hosts.size() == 1) return {};
  set_threads(threads);
  barrier(comm);
  double own = 0.0;
  fail_together(comm, [&] { own = local_streaming_rate(); });
  reset_peak_memory();
  return split_of(exchange_values(comm, std::span<const double>(&own, 1)), comm.placement());
}

}  // namespace tp

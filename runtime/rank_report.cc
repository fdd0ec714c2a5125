#include "runtime/rank_report.h"

#include "parallel/processors.h"

#include <algorithm>

#include <sys/resource.h>
#include <unistd.h>

namespace tp {

RankReport describe_rank() {
  RankReport report;
  gethostname(report.host, sizeof(report.host) - 1);
  report.processors = allowed_processors();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  report.peak_resident_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
  return report;
}

TimeParts mean_time(std::span<const RankReport> reports) {
  TimeParts mean;
  for (const RankReport& report : reports) {
    const auto share = 1.0 / static_cast<double>(reports.size());
    mean.compute += share * report.time.compute;
    mean.collectives += share * report.time.collectives;
    mean.waiting += share * report.time.waiting;
    mean.sampling += share * report.time.sampling;
    mean.control += share * report.time.control;
  }
  return mean;
}

std::size_t slowest_rank(std::span<const RankReport> reports) {
  const auto slowest = std::min_element(
      reports.begin(), reports.end(),
      [](const RankReport& a, const RankReport& b) { return a.time.waiting < b.time.waiting; });
  return static_cast<std::size_t>(slowest - reports.begin());
}

}  // namespace tp

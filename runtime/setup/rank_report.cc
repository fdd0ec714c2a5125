#include "runtime/setup/rank_report.h"

#include "model/memory/buffer.h"
#include "parallel/exchange/all_reduce.h"
#include "parallel/machine/processors.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include <sys/resource.h>
#include <unistd.h>

namespace tp {

namespace {

// Peak memory since reset_peak_memory(), or since the process started if Linux does not report the peak since
// the reset.
std::uint64_t peak_resident_bytes() {
  constexpr std::string_view kField = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kField)) return std::strtoull(line.c_str() + kField.size(), nullptr, 10) << 10;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
}

}  // namespace

void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << 5; }

RankReport describe_rank(Communicator& comm, const MemoryRanges& shared_cache) {
  RankReport report;
  gethostname(report.host, sizeof(report.host) - 1);
  report.cores = allowed_cores();
  report.peak_resident_bytes = peak_resident_bytes();
  MemoryRanges cache = memory_of(kCacheMemory);
  cache.insert(cache.end(), shared_cache.begin(), shared_cache.end());
  report.numa = describe_numa(memory_of(kWeightMemory), cache, comm.sums().shared_memory());
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

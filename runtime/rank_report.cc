#include "runtime/rank_report.h"

#include "parallel/processors.h"

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

}  // namespace tp

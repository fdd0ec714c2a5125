#include "parallel/machine/processors.h"

#include "parallel/machine/control_groups.h"
#include "parallel/machine/host_cores.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include <sched.h>
#include <unistd.h>

namespace tp {
namespace {

// The positive number at the start of an environment variable, which may be a list ("8,2").
std::optional<std::size_t> count_in(const char* variable) {
  const char* text = std::getenv(variable);
  const long count = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return count > 0 ? std::optional(static_cast<std::size_t>(count)) : std::nullopt;
}

}  // namespace

std::size_t online_processors() {
  return static_cast<std::size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

std::size_t allowed_processors() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return online_processors();
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&mask)));
}

std::size_t allowed_cores() { return count_cores(numa_domains(host_topology(), allowed_set().get())); }

std::size_t default_threads(std::size_t ranks_on_host) {
  if (const auto threads = count_in("OMP_NUM_THREADS")) {
    require<ConfigError>(
        *threads <= kMostThreads,
        "OMP_NUM_THREADS: expected at most {} threads of a rank, found {}; change it, or unset it",
        kMostThreads, *threads);
    return *threads;
  }
  const hwloc_topology_t host = host_topology();
  const std::size_t host_cores = count_cores(numa_domains(host, hwloc_topology_get_topology_cpuset(host)));
  const std::size_t ranks = std::max<std::size_t>(1, ranks_on_host);
  std::size_t threads = std::min(allowed_cores(), host_cores / ranks);
  if (const auto quota = cpu_quota()) threads = std::min(threads, static_cast<std::size_t>(*quota) / ranks);
  if (const auto slurm = count_in("SLURM_CPUS_PER_TASK")) threads = std::min(threads, *slurm);
  return std::max<std::size_t>(1, threads);
}

}  // namespace tp

#include "parallel/machine/processors.h"

#include "parallel/machine/control_groups.h"
#include "parallel/machine/host_cores.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include <omp.h>

namespace tp {
namespace {

// The positive number at the start of an environment variable, which may be a list ("8,2").
std::optional<std::size_t> count_in(const char* variable) {
  const char* text = std::getenv(variable);
  const long count = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return count > 0 ? std::optional(static_cast<std::size_t>(count)) : std::nullopt;
}

std::size_t thread_limit() { return static_cast<std::size_t>(std::max(1, omp_get_thread_limit())); }

std::size_t cores_within_quota(std::size_t cores, std::size_t ranks) {
  if (const auto quota = cpu_quota()) cores = std::min(cores, static_cast<std::size_t>(*quota) / ranks);
  if (const auto slurm = count_in("SLURM_CPUS_PER_TASK")) cores = std::min(cores, *slurm);
  return std::max<std::size_t>(1, cores);
}

}  // namespace

std::size_t allowed_cores() { return count_cores(numa_domains(host_topology(), allowed_set().get())); }

std::size_t default_threads(std::size_t cores, std::size_t ranks_on_host) {
  const std::optional<std::size_t> wanted = count_in("OMP_NUM_THREADS");
  require<ConfigError>(
      wanted.value_or(1) <= kMaxThreads,
      "OMP_NUM_THREADS: expected at most {} threads of a rank, found {}; change it, or unset it", kMaxThreads,
      wanted.value_or(1));
  return std::min(thread_limit(), wanted ? *wanted : cores_within_quota(cores, ranks_on_host));
}

std::size_t default_threads_of(std::size_t ranks) {
  const std::size_t at_least_one = std::max<std::size_t>(1, ranks);
  return default_threads(allowed_cores() / at_least_one, at_least_one);
}

void set_threads(std::size_t threads) {
  require<ConfigError>(threads <= thread_limit(),
                       "cannot run {} threads: expected at most {}, the limit in OMP_THREAD_LIMIT; change "
                       "the limit, or unset it",
                       threads, thread_limit());
  omp_set_dynamic(0);
  omp_set_max_active_levels(std::max(1, omp_get_max_active_levels()));
  omp_set_num_threads(static_cast<int>(threads));
}

}  // namespace tp

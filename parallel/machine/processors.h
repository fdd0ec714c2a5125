// The processors available to this process.
#pragma once

#include <cstddef>

namespace tp {

// Processors of this host that are online.
std::size_t online_processors();

// Processors that this process is allowed to run on (its affinity mask).
std::size_t allowed_processors();

// Cores on at least one of whose hardware threads the calling thread may run.
std::size_t allowed_cores();

constexpr std::size_t kMostThreads = 1024;  // per rank

// The number of threads without --threads: OMP_NUM_THREADS, else one per core that the process may run on,
// limited by its share of the host's cores, by its share of the CPU quota of its control groups, and by
// SLURM_CPUS_PER_TASK. At least 1. Throws ConfigError if OMP_NUM_THREADS exceeds kMostThreads.
std::size_t default_threads(std::size_t ranks_on_host);

}  // namespace tp

// The processors available to this process.
#pragma once

#include <cstddef>

namespace tp {

std::size_t online_processors();

// Processors that the calling thread may run on (its affinity mask).
std::size_t allowed_processors();

// Cores with at least one hardware thread that the calling thread may run on.
std::size_t allowed_cores();

constexpr std::size_t kMostThreads = 1024;  // per rank

// The number of threads if --threads is not given: OMP_NUM_THREADS if it is set, or else one per core that
// the calling thread may run on. That number of cores is capped at this process's share of the host's cores,
// its share of the control groups' CPU quota, and SLURM_CPUS_PER_TASK. At least 1. Throws ConfigError if
// OMP_NUM_THREADS exceeds kMostThreads.
std::size_t default_threads(std::size_t ranks_on_host);

}  // namespace tp

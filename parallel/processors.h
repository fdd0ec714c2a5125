// The processors that this process may use.
#pragma once

#include <cstddef>

namespace tp {

// Processors of this host that are switched on.
std::size_t online_processors();

// Processors that this process is allowed to run on (its affinity mask).
std::size_t allowed_processors();

// Cores of which the calling thread is allowed to run on at least one hardware thread.
std::size_t allowed_cores();

constexpr std::size_t kMostThreads = 1024;  // of a rank

// Threads for a rank when the user names none with --threads: OMP_NUM_THREADS, else one for each core that
// the process may run on, at most its share of the host's cores and of the CPU quota of its control groups,
// and at most SLURM_CPUS_PER_TASK. At least 1. Throws ConfigError for more of OMP_NUM_THREADS than
// kMostThreads.
std::size_t default_threads(std::size_t ranks_on_host);

}  // namespace tp

// The threads of this process, and the cores for them.
#pragma once

#include <cstddef>

namespace tp {

// Cores with at least one hardware thread that this process may use.
std::size_t allowed_cores();

constexpr std::size_t kMaxThreads = 1024;  // per rank

// The number of threads if --threads is not given: OMP_NUM_THREADS if it is set, or else one per core of this
// rank's share. The share is `cores`, limited by the rank's part of the control groups' CPU quota, and by
// SLURM_CPUS_PER_TASK. OMP_THREAD_LIMIT limits both numbers. At least 1. Throws ConfigError if
// OMP_NUM_THREADS exceeds kMaxThreads.
std::size_t default_threads(std::size_t cores, std::size_t ranks_on_host);

// The number of threads for each of `ranks` ranks that would share this process's cores.
std::size_t default_threads_of(std::size_t ranks);

// Makes the calling thread's parallel regions run on this number of threads. OMP_DYNAMIC and
// OMP_MAX_ACTIVE_LEVELS lose their effect, because OpenMP would start fewer threads in silence. Throws
// ConfigError if the number exceeds OMP_THREAD_LIMIT.
void set_threads(std::size_t threads);

}  // namespace tp

#pragma once

#include "parallel/machine/numa.h"
#include "tp/communicator.h"
#include "tp/rank_report.h"

namespace tp {

// The parts of a report that the operating system knows: host, cores, peak memory, and the NUMA nodes of this
// process's weights, cache and shared memory. `shared_cache`: the rank's part of a cache that the ranks of
// the host share.
RankReport describe_rank(Communicator& comm, const MemoryRanges& shared_cache);

// Resets the peak memory, if Linux allows it.
void reset_peak_memory();

}  // namespace tp

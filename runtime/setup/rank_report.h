#pragma once

#include "tp/communicator.h"
#include "tp/rank_report.h"

namespace tp {

// The parts of a report that the operating system knows: host, cores, peak memory, and the NUMA nodes of this
// process's weights, cache and shared memory.
RankReport describe_rank(Communicator& comm);

// Resets the peak memory, if Linux allows it.
void reset_peak_memory();

}  // namespace tp

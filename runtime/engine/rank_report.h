#pragma once

#include "tp/rank_report.h"

namespace tp {

// The parts of a report that the operating system knows: host, cores, peak memory.
RankReport describe_rank();

// Resets the peak memory, where Linux allows it.
void reset_peak_memory();

}  // namespace tp

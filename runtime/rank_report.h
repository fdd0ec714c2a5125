#pragma once

#include "tp/rank_report.h"

namespace tp {

// The parts of a report that the operating system knows: host, processors, peak memory.
RankReport describe_rank();

}  // namespace tp

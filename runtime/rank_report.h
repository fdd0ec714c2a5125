#pragma once

#include "tp/engine.h"

namespace tp {

// The parts of a report that the operating system knows: host, processors, peak memory.
RankReport describe_rank();

}  // namespace tp

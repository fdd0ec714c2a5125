// Which tokens the outputs of a step may choose.
#pragma once

#include "runtime/scheduling/scheduler.h"

#include <cstddef>

namespace tp {

// Starts computing the masks of a step's outputs, beside its forward pass. Those of constraints share a
// thread, since most take less time than it takes to create one.
void start_masks(PlannedStep& planned, std::size_t vocab_size);

}  // namespace tp

// Masks of allowed tokens for a step's outputs.
#pragma once

#include "runtime/scheduling/scheduler.h"

#include <cstddef>

namespace tp {

// Starts computing the masks of a step's outputs, to run alongside the forward pass. All constraints share
// one thread, because most masks take less time than creating a thread.
void start_masks(PlannedStep& planned, std::size_t vocab_size);

}  // namespace tp

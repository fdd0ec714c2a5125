// Masks of allowed tokens for a step's outputs.
#pragma once

#include "runtime/scheduling/scheduler.h"

#include <cstddef>

namespace tp {

// Starts computing the masks of a step's outputs in the background, so that the forward pass can run at the
// same time. All constraints share one thread, because most masks take less time than creating a thread.
void start_masks(PlannedStep& planned, std::size_t vocab_size);

}  // namespace tp

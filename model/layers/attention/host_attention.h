#pragma once

#include "model/kernels/attention.h"
#include "model/layers/linear/step_context.h"

namespace tp {

// Computes paged_attention after this rank has written keys and values. If the ranks of the host keep one
// copy of the layer's cache, waits until all of them have written, and divides the work on long contexts
// among them: each rank attends with all heads to the splits that it owns. The result has the bits of
// paged_attention. Throws CommError.
void attend(const kernels::AttentionArgs& args, const StepContext& step);

// After this rank has written keys and values: waits until all ranks of the host that keep one copy of the
// layer's cache have called this function. Afterwards, this rank sees what they wrote before. Throws
// CommError.
void wait_for_host(const StepContext& step);

}  // namespace tp

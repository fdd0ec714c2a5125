// The recurrence of the gated delta rule, of Kimi delta attention and of Mamba-2. README.md has its form,
// which makes results independent of the steps in which tokens are computed.
#pragma once

#include "model/kernels/delta_arguments.h"
#include "model/kernels/recurrent_run.h"

#include <cstddef>
#include <span>

namespace tp::kernels {

// Floats of memory for each thread, and for each token.
std::size_t delta_scratch(const DeltaShape& shape);
std::size_t delta_dots(const DeltaShape& shape, bool corrects);

// For each token of a run: S *= decay; S += k (strength (v - S^T k))^T; out = S^T q. Without corrections: S
// += k (strength v)^T.
void delta_rule(const DeltaRule& rule, std::span<const RecurrentRun> runs);

}  // namespace tp::kernels

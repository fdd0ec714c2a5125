// A forward pass that keeps computing while sums over ranks are in flight.
#pragma once

#include "model/layers/model.h"

namespace tp {

// Like model.forward(), but switches back and forth between two half-batches: while hosts exchange the sums
// of one half-batch, ranks compute the other. A batch that cannot be split (see halves_of) is computed whole.
// Requires a `workspace` sized with StepLimits::overlaps, and a single-stage model for which
// can_divide_steps() is true. Collective; throws CommError.
void forward_in_halves(const Model& model, Communicator& comm, const Batch& batch, const KvCache& cache,
                       Workspace& workspace, const Model::OnLogits& on_logits,
                       const Model::OnHidden& on_hidden = {});

}  // namespace tp

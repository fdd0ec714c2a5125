// A forward pass whose sums over ranks go on while it computes.
#pragma once

#include "model/layers/decoder.h"

namespace tp {

// As decoder.forward(), but as two half-batches in turns: while the sums of one are on the wire, the other
// computes. As a whole if the batch cannot be divided (halves_of). `workspace` was made for
// StepLimits::overlaps, and the model is one stage that can_divide_steps(). Collective; throws CommError.
void forward_in_halves(const Decoder& decoder, Communicator& comm, const Batch& batch, const KvCache& cache,
                       Workspace& workspace, const Decoder::OnLogits& on_logits,
                       const Decoder::OnHidden& on_hidden = {});

}  // namespace tp

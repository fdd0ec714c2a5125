#pragma once

#include "model/config/spec.h"
#include "model/layers/linear/norm.h"
#include "model/layers/linear/step_context.h"
#include "model/layers/stream_projection.h"

#include <cstddef>

namespace tp {

// The vectors from which all layers of a block drafter make the keys and values of its context:
// norm(projection(the target's streams)).
class DraftContext {
 public:
  // Throws CheckpointError.
  DraftContext(WeightLoader& loader, const DrafterNames& names, std::size_t hidden_size,
               const DrafterSpec& spec)
      : projection_(loader, names, hidden_size, spec),
        norm_(loader, names.state_norm, hidden_size, spec.norm) {}

  // Returns [tokens, hidden_size], the same on every rank. Reads Batch::states_before. Collective unless
  // `comm` is null (a shape-only step); throws CommError.
  TensorView<const float> operator()(Communicator* comm, const StepContext& step) const;

 private:
  StreamProjection projection_;
  Norm norm_;
};

}  // namespace tp

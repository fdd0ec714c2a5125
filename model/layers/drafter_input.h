#pragma once

#include "model/config/spec.h"
#include "model/layers/linear/norm.h"
#include "model/layers/linear/step_context.h"
#include "model/layers/stream_projection.h"
#include "parallel/shard/partial_sum.h"

#include <optional>

namespace tp {

// The input of an EAGLE-3 drafter's block: see DrafterSpec.
class DrafterInput {
 public:
  // Throws CheckpointError.
  DrafterInput(WeightLoader& loader, const BlockNames& names, std::size_t hidden_size,
               const DrafterSpec& spec);

  // Returns the states, [tokens, hidden_size], the same on every rank, and writes the normed token vectors to
  // `vectors`, [tokens, hidden_size]. Reads Batch::states_before. `embedding`: [tokens, hidden_size].
  // Collective unless `comm` is null (a shape-only step); throws CommError.
  TensorView<float> operator()(Communicator* comm, PartialSum embedding, const StepContext& step,
                               TensorView<float> vectors) const;

 private:
  Norm embedding_norm_;
  StreamProjection projection_;
  std::optional<Norm> state_norm_;
};

}  // namespace tp

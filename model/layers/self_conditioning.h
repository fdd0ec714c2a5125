// The input of tokens of a canvas, which depends on the previous pass over the canvas.
#pragma once

#include "model/config/spec.h"
#include "model/layers/feed_forward/mlp.h"
#include "model/layers/linear/norm.h"
#include "model/layers/linear/step_context.h"
#include "parallel/shard/partial_sum.h"

#include <cstddef>

namespace tp {

// See SelfConditioningSpec. Other tokens of the step keep their embeddings.
class SelfConditioning {
 public:
  // `embedding_scale` multiplies soft embeddings like token vectors. Throws CheckpointError.
  SelfConditioning(WeightLoader& loader, const SelfConditioningSpec& spec, std::size_t hidden_size,
                   float embedding_scale, const SelfConditioningNames& names);

  // `embedding`: [tokens, hidden_size] -> [tokens, hidden_size], the same on every rank. Reads
  // Batch::is_canvas and Batch::states_before. A step in which tokens have soft embeddings needs a second
  // all-reduce. Collective unless `comm` is null (a shape-only step); throws CommError.
  TensorView<float> operator()(Communicator* comm, PartialSum embedding, const StepContext& step) const;

 private:
  float embedding_scale_;
  Norm norm_;
  GatedMlp mlp_;
  Norm embedding_norm_;
};

}  // namespace tp

#pragma once

#include "model/config/spec.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"
#include "model/layers/linear/step_context.h"
#include "parallel/shard/partial_sum.h"

namespace tp {

// The input of a multi-token prediction layer's block: projection([norm(token's vector), norm(previous
// token's hidden state)]). Each rank multiplies its own share of the projection's columns.
class NextTokenInput {
 public:
  // Throws CheckpointError.
  NextTokenInput(WeightLoader& loader, const NextTokenNames& names, std::size_t hidden_size,
                 const NextTokenSpec& spec);

  // `embedding`: [tokens, hidden_size] -> [tokens, hidden_size], the same on every rank. Reads
  // Batch::states_before. Collective unless `comm` is null (a shape-only step); throws CommError.
  TensorView<float> operator()(Communicator* comm, PartialSum embedding, const StepContext& step) const;

 private:
  Norm embedding_norm_;
  Norm state_norm_;
  Range columns_;  // this rank's share of the 2 * hidden_size columns
  RowParallelLinear projection_;
};

}  // namespace tp

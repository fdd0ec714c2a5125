#pragma once

#include "model/config/spec.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"
#include "model/layers/linear/step_context.h"
#include "parallel/shard/partial_sum.h"

namespace tp {

// The input of a multi-token prediction layer's block: the token's vector and the model's hidden state of the
// token before it, each normed, side by side and projected. A rank multiplies its share of these columns.
class NextTokenInput {
 public:
  // Throws CheckpointError.
  NextTokenInput(WeightLoader& loader, const NextTokenNames& names, std::size_t hidden_size,
                 const NextTokenSpec& spec);

  // `embedding` and the batch's states, [tokens, hidden_size] -> [tokens, hidden_size], equal on every rank.
  // Collective, unless there is no `comm` as the step is of shapes; throws CommError.
  TensorView<float> operator()(Communicator* comm, PartialSum embedding, const StepContext& step) const;

 private:
  Norm embedding_norm_;
  Norm state_norm_;
  Range columns_;  // this rank's columns of 2 * hidden_size
  RowParallelLinear projection_;
};

}  // namespace tp

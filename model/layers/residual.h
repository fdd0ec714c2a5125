// The residual stream, which blocks read and add to.
#pragma once

#include "model/layers/norm.h"
#include "model/layers/step_context.h"
#include "parallel/collectives.h"

#include <optional>

namespace tp {

// [tokens, hidden_size], equal on every rank. All sums over ranks of a step are taken here, apart from those
// of a ProjectionNorm.
class Residual {
 public:
  // Begins with the embedding. Collective, unless there is no `comm` as the step is of shapes; throws
  // CommError.
  Residual(Communicator* comm, PartialSum embedding, const StepContext& step)
      : comm_(comm),
        step_(step),
        x_(comm != nullptr ? all_reduce(*comm, std::move(embedding)) : embedding.shape()),
        frame_(step.workspace) {}

  // x = norm(x)
  void apply(const Norm& norm);

  // What a part reads: norm(x), [tokens, hidden_size].
  TensorView<const float> normed(const Norm& norm) const { return norm(x_, step_.workspace); }
  // The same, or x itself where there is no norm.
  TensorView<const float> normed(const std::optional<Norm>& norm) const { return norm ? normed(*norm) : x_; }

  // x += scale * the sum over ranks, with a norm of its own in some families. Gives back what was taken of
  // the workspace since the last sum. Collective; throws CommError.
  void add_all_reduced(PartialSum sum, const std::optional<Norm>& post_norm, float scale);

  TensorView<const float> rows() const { return x_; }

 private:
  Communicator* comm_;
  const StepContext& step_;
  TensorView<float> x_;
  Workspace::Frame frame_;  // behind x
};

}  // namespace tp

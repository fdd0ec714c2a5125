// A linear layer that has weights of its own for every attention head.
#pragma once

#include "model/layers/linear/step_context.h"
#include "model/weights/local_weight.h"

#include <cstddef>
#include <vector>

namespace tp {

// y[head] = x[head] . weight[head]^T. A rank owns heads: nothing is communicated.
class HeadwiseLinear {
 public:
  // One weight a head, all [out_features, in_features].
  explicit HeadwiseLinear(std::vector<LocalWeight> weights) : weights_(std::move(weights)) {}

  // x: [tokens, heads * in_features], y: [tokens, heads * at least out_features]: every head has an equal
  // part of y, and its results begin that part.
  void operator()(TensorView<const float> x, TensorView<float> y, const StepContext& step) const;

 private:
  std::vector<LocalWeight> weights_;  // [heads]
};

}  // namespace tp

// A linear layer with separate weights for each attention head.
#pragma once

#include "model/layers/linear/step_context.h"
#include "model/weights/local_weight.h"

#include <cstddef>
#include <vector>

namespace tp {

// y[head] = x[head] . weight[head]^T. Each rank owns whole heads, so nothing is communicated.
class HeadwiseLinear {
 public:
  // One weight per head, each [out_features, in_features].
  explicit HeadwiseLinear(std::vector<LocalWeight> weights) : weights_(std::move(weights)) {}

  // x: [tokens, heads * in_features], y: [tokens, heads * stride], stride >= out_features. Each head's result
  // fills the first out_features of its `stride` columns.
  void operator()(TensorView<const float> x, TensorView<float> y, const StepContext& step) const;

 private:
  std::vector<LocalWeight> weights_;  // [heads]
};

}  // namespace tp

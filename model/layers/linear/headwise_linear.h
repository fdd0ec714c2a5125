// A linear layer with separate weights for each attention head.
#pragma once

#include "model/layers/linear/headwise_adapters.h"
#include "model/layers/linear/step_context.h"
#include "model/weights/local_weight.h"

#include <cstddef>
#include <vector>

namespace tp {

// y[head] = x[head] . weight[head]^T. Each rank owns whole heads, so nothing is communicated.
class HeadwiseLinear {
 public:
  // One weight per head, each [out_features, in_features].
  explicit HeadwiseLinear(std::vector<LocalWeight> weights, HeadwiseAdapters adapters = {})
      : weights_(std::move(weights)), adapters_(std::move(adapters)) {}

  // x: [tokens, heads * in_features], y: [tokens, heads * stride], stride >= out_features. Each head's result
  // fills the first out_features of its `stride` columns.
  void operator()(TensorView<const float> x, TensorView<float> y, const StepContext& step) const;

 private:
  // Writes the heads' products without adapters.
  void multiply(TensorView<const float> x, TensorView<float> y, const StepContext& step) const;

  std::vector<LocalWeight> weights_;  // [heads]
  HeadwiseAdapters adapters_;
};

}  // namespace tp

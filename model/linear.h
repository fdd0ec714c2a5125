// The linear layers of a rank: all of tensor parallelism's arithmetic is here. Weights are [out_features,
// in_features] and y = x . weight^T + bias.
#pragma once

#include "model/buffer.h"
#include "model/weight_loader.h"
#include "model/workspace.h"
#include "parallel/partial_sum.h"
#include "tp/tensor.h"

#include <span>
#include <vector>

namespace tp {

// This rank's part of one weight matrix, or of several that read the same input, one below the other.
class LocalWeight {
 public:
  LocalWeight(Buffer<float> elements, std::size_t out_features, std::size_t in_features)
      : elements_(std::move(elements)), out_features_(out_features), in_features_(in_features) {}

  std::size_t out_features() const { return out_features_; }
  std::size_t in_features() const { return in_features_; }
  std::size_t bytes() const { return elements_.size() * sizeof(float); }
  TensorView<const float> view() const { return {elements_.data(), out_features_, in_features_}; }

  // y = x . weight^T. x: [tokens, in_features], y: [tokens, out_features]
  void multiply(TensorView<const float> x, TensorView<float> y) const;

 private:
  Buffer<float> elements_;  // [out_features, in_features]
  std::size_t out_features_;
  std::size_t in_features_;
};

// A rank owns output features: it needs the whole input, and nothing is communicated.
class ColumnParallelLinear {
 public:
  // The owned rows of one or several stored layers become one product. Throws CheckpointError.
  ColumnParallelLinear(WeightLoader& loader, std::span<const OwnedRows> parts, bool bias);

  // x: [tokens, in_features] -> [tokens, local out_features]
  TensorView<float> operator()(TensorView<const float> x, Workspace& workspace) const;

  std::size_t bytes() const { return weight_.bytes() + bias_.size() * sizeof(float); }

 private:
  LocalWeight weight_;
  std::vector<float> bias_;  // [local out_features] or empty
};

// A rank owns input features: it has its part of the input, and its result is an addend of the sum over
// ranks.
class RowParallelLinear {
 public:
  // `columns` are the owned input features. The bias is held by the first rank only. Throws CheckpointError.
  RowParallelLinear(WeightLoader& loader, const StoredLayer& layer, Range columns, bool bias);

  // x: [tokens, local in_features] -> an addend of [tokens, out_features]
  PartialSum operator()(TensorView<const float> x, Workspace& workspace) const;

  std::size_t bytes() const { return weight_.bytes() + bias_.size() * sizeof(float); }

 private:
  LocalWeight weight_;
  std::vector<float> bias_;  // [out_features], or empty
};

}  // namespace tp

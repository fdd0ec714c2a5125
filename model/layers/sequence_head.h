// A head for whole sequences: layers that process a sequence's pooled hidden state.
#pragma once

#include "model/config/spec.h"
#include "model/layers/linear/norm.h"
#include "model/weights/weight_loader.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tp {

// norm(activation(weight x + bias)) of one vector, in float32 with sums in float64. Speed does not matter:
// a layer runs once per sequence, not once per token.
class PooledLayer {
 public:
  // `prefix` precedes the layer's name if the spec sets `of_body`. Throws CheckpointError.
  PooledLayer(WeightLoader& loader, const PooledLayerSpec& spec, std::size_t in_features,
              const std::string& prefix);

  // x: [in_features] -> [out_features]
  std::vector<float> operator()(std::span<const float> x) const;

  std::size_t out_features() const { return out_features_; }

 private:
  std::size_t in_features_;
  std::size_t out_features_;
  PooledLayerSpec::Activation activation_;
  Buffer<float> weight_;     // [out_features, in_features]
  std::vector<float> bias_;  // [out_features], or empty
  std::optional<Norm> norm_;
};

// A classifier's head, or BERT's pooler.
class SequenceHead {
 public:
  // Throws CheckpointError.
  SequenceHead(WeightLoader& loader, const SequenceHeadSpec& spec, std::size_t hidden_size,
               const std::string& prefix);

  // Whether the checkpoint contains all of the head's layers.
  static bool is_stored(const WeightSource& source, const SequenceHeadSpec& spec, const std::string& prefix);

  Pooling pooling() const { return pooling_; }
  // pooled: [hidden_size] -> [out_features of the last layer]
  std::vector<float> operator()(std::vector<float> pooled) const;

 private:
  Pooling pooling_;
  std::vector<PooledLayer> layers_;
};

}  // namespace tp

// Norms of the residual stream and of heads.
#pragma once

#include "model/config/spec.h"
#include "model/layers/local_shapes.h"
#include "model/memory/workspace.h"
#include "model/weights/weight_loader.h"

#include <string>
#include <vector>

namespace tp {

// RMS norm, x / rms(x) * gain, or layer norm, (x - mean(x)) / deviation(x) * gain + bias. Every rank holds
// the whole of gain and bias.
class Norm {
 public:
  // Throws CheckpointError. `reason` is the config value that `size` follows from.
  Norm(WeightLoader& loader, const std::string& layer, std::size_t size, const NormSpec& spec,
       const std::string& reason = "hidden_size");

  // x: [tokens, size] -> [tokens, size]
  TensorView<float> operator()(TensorView<const float> x, Workspace& workspace) const;
  // The same where x is, which may be rows of several vectors: [tokens, vectors * size].
  void apply_in_place(TensorView<float> x) const;

  std::size_t bytes() const { return (gain_.size() + bias_.size()) * sizeof(float); }

 private:
  void apply(TensorView<const float> x, TensorView<float> out) const;

  NormSpec::Kind kind_;
  float eps_;
  std::vector<float> gain_;  // [size]
  std::vector<float> bias_;  // [size], or empty: an RMS norm has none
};

// What a rank holds of it.
LocalShapes local_shapes(const NormSpec& spec, std::size_t size);

}  // namespace tp

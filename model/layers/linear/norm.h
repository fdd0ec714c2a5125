#pragma once

#include "model/config/spec.h"
#include "model/memory/workspace.h"
#include "model/weights/weight_loader.h"

#include <string>
#include <vector>

namespace tp {

// An RMS norm, x / rms(x) * gain, or a layer norm, (x - mean(x)) / deviation(x) * gain + bias. Every rank
// holds the whole gain and bias.
class Norm {
 public:
  // `reason`: the config value that determines `size`, for error messages. Throws CheckpointError.
  Norm(WeightLoader& loader, const std::string& layer, std::size_t size, const NormSpec& spec,
       const std::string& reason = "hidden_size");

  // `gain` and `bias`: [size] each; `gain` includes gain_offset, and an RMS norm has an empty `bias`.
  Norm(const NormSpec& spec, std::vector<float> gain, std::vector<float> bias)
      : kind_(spec.kind), eps_(spec.eps), gain_(std::move(gain)), bias_(std::move(bias)) {}

  // x: [tokens, size] -> [tokens, size]
  TensorView<float> operator()(TensorView<const float> x, Workspace& workspace) const;
  // Normalizes every vector of x in place. x: [tokens, vectors * size]
  void apply_in_place(TensorView<float> x) const;

 private:
  void apply(TensorView<const float> x, TensorView<float> out) const;

  NormSpec::Kind kind_;
  float eps_;
  std::vector<float> gain_;  // [size]
  std::vector<float> bias_;  // [size]; empty for an RMS norm
};

}  // namespace tp

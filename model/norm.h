#pragma once

#include "model/kernels/elementwise.h"
#include "model/spec.h"
#include "model/weight_loader.h"
#include "model/workspace.h"

#include <vector>

namespace tp {

// x / rms(x) * gain; every rank holds the whole gain.
class RmsNorm {
 public:
  RmsNorm(WeightLoader& loader, const std::string& layer, std::size_t hidden_size, const NormSpec& spec);

  // x: [tokens, hidden_size] -> [tokens, hidden_size]
  TensorView<float> operator()(TensorView<const float> x, Workspace& workspace) const {
    const TensorView<float> out = workspace.take(x.rows(), x.columns());
    kernels::rms_norm(x, gain_, eps_, out);
    return out;
  }

  std::size_t bytes() const { return gain_.size() * sizeof(float); }

 private:
  std::vector<float> gain_;  // [hidden_size]
  float eps_;
};

}  // namespace tp

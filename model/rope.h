// Rotary position embeddings and their scalings.
#pragma once

#include "model/spec.h"
#include "model/workspace.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// The angles of a batch's tokens, computed once a step for all layers.
struct RopeAngles {
  TensorView<float> cosine;  // [tokens, head_dim / 2]
  TensorView<float> sine;    // [tokens, head_dim / 2]
};

class Rope {
 public:
  Rope(const RopeSpec& spec, std::size_t head_dim);

  RopeAngles operator()(std::span<const std::size_t> positions, Workspace& workspace) const;

  // The angle that one position adds, [head_dim / 2], in radians.
  std::span<const float> frequencies() const { return frequencies_; }
  // What cosines and sines are multiplied by (yarn).
  float magnitude() const { return magnitude_; }

 private:
  std::vector<float> frequencies_;
  float magnitude_ = 1.0F;
};

}  // namespace tp

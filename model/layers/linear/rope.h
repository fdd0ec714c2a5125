// Rotary position embeddings and their scalings.
#pragma once

#include "model/config/spec.h"
#include "model/memory/workspace.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// The angles of a batch's tokens, computed once per step for all layers that have this RopeSpec.
struct RopeAngles {
  const RopeSpec* spec = nullptr;
  TensorView<float> cosine;  // [tokens, rotary_dim / 2]
  TensorView<float> sine;    // [tokens, rotary_dim / 2]
};

class Rope {
 public:
  // `max_positions`: maximum tokens per sequence. longrope has other factors for long sequences; because keys
  // are cached rotated, one set of factors is used for all sequences.
  Rope(const RopeSpec& spec, std::size_t max_positions);

  const RopeSpec& spec() const { return spec_; }

  // The result refers to this object.
  RopeAngles operator()(std::span<const std::size_t> positions, Workspace& workspace) const;

  // The angle that one position adds, [rotary_dim / 2], in radians.
  std::span<const float> frequencies() const { return frequencies_; }
  // Factor of cosines and sines (yarn, longrope).
  float magnitude() const { return magnitude_; }

 private:
  RopeSpec spec_;
  std::vector<float> frequencies_;
  float magnitude_ = 1.0F;
};

// Every RopeSpec of a model's blocks once.
std::vector<Rope> distinct_ropes(const DecoderSpec& spec);

}  // namespace tp

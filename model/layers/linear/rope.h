// Rotary position embeddings (RoPE), with scaling for long contexts.
#pragma once

#include "model/config/spec.h"
#include "model/memory/workspace.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Cosines and sines for a batch's tokens, computed once per step and shared by all layers with this RopeSpec.
struct RopeAngles {
  const RopeSpec* spec = nullptr;
  TensorView<float> cosine;  // [tokens, rotary_dim / 2]
  TensorView<float> sine;    // [tokens, rotary_dim / 2]
};

class Rope {
 public:
  // `max_positions`: maximum tokens per sequence. longrope has one set of factors for short sequences and
  // another for long sequences. Keys are rotated before they are cached, so `max_positions` selects one set
  // for all sequences.
  Rope(const RopeSpec& spec, std::size_t max_positions);

  const RopeSpec& spec() const { return spec_; }

  // The result points to this object's spec, so this object must outlive the result.
  RopeAngles operator()(std::span<const std::size_t> positions, Workspace& workspace) const;

  // Radians per position, [rotary_dim / 2].
  std::span<const float> frequencies() const { return frequencies_; }
  // Scales cosines and sines (yarn, longrope).
  float magnitude() const { return magnitude_; }

 private:
  RopeSpec spec_;
  std::vector<float> frequencies_;
  float magnitude_ = 1.0F;
};

// One Rope for each distinct RopeSpec among the model's blocks.
std::vector<Rope> distinct_ropes(const ModelSpec& spec);

}  // namespace tp

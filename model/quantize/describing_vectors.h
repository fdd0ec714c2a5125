// Vectors of GGUF files that belong to the config, not to the weights.
#pragma once

#include "model/config/spec.h"

#include <string>
#include <vector>

namespace tp {

// The RoPE of a layer with (or without) a window, or of any layer if there is no such layer; null without
// RoPE.
const RopeSpec* rope_of(const ModelSpec& spec, bool with_window = false);

// A tensor in GGUF files that replaces numbers of config.json: divisors of RoPE's frequencies, or factors of
// attention scores.
struct DescribingVector {
  std::string name;  // "rope_freqs.weight"
  std::vector<float> values;
};
std::vector<DescribingVector> describing_vectors(const ModelSpec& spec);

}  // namespace tp

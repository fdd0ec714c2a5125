// Rotary frequencies after transformers' modeling_rope_utils.
#pragma once

#include "model/config/checkpoint_config.h"

#include <cstddef>
#include <vector>

namespace tp::reference {

struct Frequencies {
  std::vector<double> per_position;  // [head_dim / 2] the angle that one position adds
  double magnitude = 1.0;            // magnitude of cosines and sines
};

Frequencies rope_frequencies(double theta, const RopeScaling& scaling, std::size_t head_dim);

}  // namespace tp::reference

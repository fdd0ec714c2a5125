// Approximates a decoder's attention by random features.
#pragma once

#include "model/config/spec.h"

#include <cstddef>

namespace tp {

// Uses `favor_features` random features in each layer that attends to all earlier tokens. Layers with a
// window or a recurrence do not change, because their cost per token does not grow with the text. Throws
// ConfigError if the model's attention is more than a softmax of products.
void approximate_attention(ModelSpec& spec, std::size_t favor_features);

}  // namespace tp

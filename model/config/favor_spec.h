// Decoders whose attention is approximated by random features.
#pragma once

#include "model/config/spec.h"

#include <cstddef>

namespace tp {

// Gives the layers that see all tokens before so many random features; those with windows or a recurrence
// stay what they are, as their cost does not grow with a text. Throws ConfigError for a model whose attention
// is more than a softmax of products.
void approximate_attention(DecoderSpec& spec, std::size_t favor_features);

}  // namespace tp

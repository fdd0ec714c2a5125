#pragma once

#include "tp/tensor.h"

namespace tp::kernels {

// Rotary positions, in place. Rotates the pairs (i, i + rotary_dim / 2) of each head's first rotary_dim
// elements by the token's angles. x: [tokens, heads * head_dim]; cosine, sine: [tokens, rotary_dim / 2];
// rotary_dim may be 0. Source: Su et al., RoFormer, 2021, with the halves paired like in Hugging Face
// checkpoints.
void rotate(TensorView<float> x, std::size_t head_dim, TensorView<const float> cosine,
            TensorView<const float> sine);

// rotate for the pairs (2 i, 2 i + 1), as in DeepSeek's checkpoints.
void rotate_pairs(TensorView<float> x, std::size_t head_dim, TensorView<const float> cosine,
                  TensorView<const float> sine);

}  // namespace tp::kernels

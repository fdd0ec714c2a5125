#pragma once

#include "tp/tensor.h"

namespace tp::kernels {

// Rotary positions in place: of every head, the pairs (i, i + rotary_dim / 2) among its first rotary_dim
// elements are rotated by the token's angles. x: [tokens, heads * head_dim]; cosine, sine: [tokens,
// rotary_dim / 2], where rotary_dim may be 0. Source: Su et al., RoFormer, 2021, with the halves paired as in
// Hugging Face checkpoints.
void rotate(TensorView<float> x, std::size_t head_dim, TensorView<const float> cosine,
            TensorView<const float> sine);

// The same with the pairs (2 i, 2 i + 1), as DeepSeek's checkpoints have them.
void rotate_pairs(TensorView<float> x, std::size_t head_dim, TensorView<const float> cosine,
                  TensorView<const float> sine);

}  // namespace tp::kernels

#pragma once

#include "tp/tensor.h"

namespace tp::kernels {

// Rotary positions in place: of every head, the pairs (i, i + head_dim / 2) are turned by the token's angles.
// x: [tokens, heads * head_dim]; cosine, sine: [tokens, head_dim / 2].
// Source: Su et al., RoFormer, 2021, with the halves paired as in Hugging Face checkpoints.
void rotate(TensorView<float> x, TensorView<const float> cosine, TensorView<const float> sine);

// The same with the pairs (2 i, 2 i + 1), as DeepSeek's checkpoints have them.
void rotate_pairs(TensorView<float> x, TensorView<const float> cosine, TensorView<const float> sine);

}  // namespace tp::kernels

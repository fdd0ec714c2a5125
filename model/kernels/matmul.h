#pragma once

#include "model/kernels/packed_weight.h"
#include "tp/tensor.h"

#include <cstddef>

namespace tp::kernels {

// y = x . weight^T. x: [tokens, in_features], y: [tokens, out_features].
//
// f32 weights: few tokens stream the weight once through every thread; many go to OpenBLAS' sgemm. f16 and
// bf16: in float32 arithmetic; where the machine multiplies pairs of bf16, activations of many tokens are
// rounded to bf16. int8 and int4: activations are quantized to 8 bits in groups of 32, and groups are
// multiplied in integers.
//
// `scratch` holds matmul_scratch(...) floats for the converted activations.
void matmul(TensorView<const float> x, const PackedView& weight, TensorView<float> scratch,
            TensorView<float> y);

// The same with float32 weights as they are, [out_features, in_features].
void matmul(TensorView<const float> x, TensorView<const float> weight, TensorView<float> y);

// Floats of scratch that a product with a weight of this type needs.
std::size_t matmul_scratch(WeightType type, std::size_t tokens, std::size_t in_features);

}  // namespace tp::kernels

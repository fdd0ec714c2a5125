#pragma once

#include "tp/tensor.h"

namespace tp::kernels {

// y = x . weight^T in float32. x: [tokens, in_features], weight: [out_features, in_features],
// y: [tokens, out_features]. Few tokens stream the weight once through every thread; many go to OpenBLAS'
// sgemm.
void matmul(TensorView<const float> x, TensorView<const float> weight, TensorView<float> y);

}  // namespace tp::kernels

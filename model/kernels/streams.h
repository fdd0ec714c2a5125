// Kernels of several residual streams, which lie side by side: [tokens, streams * size].
#pragma once

#include "tp/tensor.h"

#include <cstddef>

namespace tp::kernels {

constexpr std::size_t kMostStreams = 16;

// Each stream k becomes x[k] + the sum over j of coefficients[k, j] * x[j]. coefficients: [tokens, streams *
// streams]. At most kMostStreams streams of `size` elements.
void mix_streams(TensorView<const float> coefficients, std::size_t size, TensorView<float> streams);

// Each stream k becomes x[k] + (1 + coefficients[k]) * (y - x[0]). coefficients: [tokens, streams], y:
// [tokens, size].
void correct_streams(TensorView<const float> coefficients, TensorView<const float> y,
                     TensorView<float> streams);

// x *= rms(target) / sqrt(max(mean(x^2), least)) for each row. Both [tokens, size].
void match_magnitude(TensorView<const float> target, float least, TensorView<float> x);

}  // namespace tp::kernels

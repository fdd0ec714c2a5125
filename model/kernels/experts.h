// Kernels of a mixture of experts, for sending rows of a batch to experts.
#pragma once

#include "tp/tensor.h"

#include <cstddef>
#include <span>

namespace tp::kernels {

// logits = x . weight^T. x: [tokens, hidden_size], weight: [num_experts, hidden_size], logits: [tokens,
// num_experts].
//
// Unlike in a general matmul, each logit is summed in a fixed order, regardless of other tokens and of the
// number of threads. Otherwise ranks could choose different experts near a tie.
void router_logits(TensorView<const float> x, TensorView<const float> weight, TensorView<float> logits);

// out[i] = x[rows[i]]. x: [tokens, size], out: [rows.size(), size].
void gather_rows(TensorView<const float> x, std::span<const std::size_t> rows, TensorView<float> out);

// out[rows[i]] = x[i]. x: [rows.size(), size], out: [tokens, size].
void scatter_rows(TensorView<const float> x, std::span<const std::size_t> rows, TensorView<float> out);

// x[i] *= factors[i]. x: [factors.size(), size].
void scale_rows(std::span<const float> factors, TensorView<float> x);

}  // namespace tp::kernels

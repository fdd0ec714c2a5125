// Kernels of a mixture of experts: what sends rows of a batch to experts.
#pragma once

#include "tp/tensor.h"

#include <cstddef>
#include <span>

namespace tp::kernels {

// logits = x . weight^T. x: [tokens, hidden_size], weight: [num_experts, hidden_size], logits: [tokens,
// num_experts].
//
// Unlike in a general matmul, every logit is summed in one order, whatever the other tokens and the number of
// threads: ranks must agree bit for bit, or near a tie they would choose different experts.
void router_logits(TensorView<const float> x, TensorView<const float> weight, TensorView<float> logits);

// out[i] = x[rows[i]]. x: [tokens, size], out: [rows.size(), size].
void gather_rows(TensorView<const float> x, std::span<const std::size_t> rows, TensorView<float> out);

// out[rows[i]] = x[i]. x: [rows.size(), size], out: [tokens, size].
void scatter_rows(TensorView<const float> x, std::span<const std::size_t> rows, TensorView<float> out);

// x[i] *= factors[i]. x: [factors.size(), size].
void scale_rows(std::span<const float> factors, TensorView<float> x);

}  // namespace tp::kernels

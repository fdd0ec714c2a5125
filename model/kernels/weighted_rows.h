// Sums of a weight's rows.
#pragma once

#include "model/kernels/packed_weight.h"
#include "tp/tensor.h"

namespace tp::kernels {

// sums[i] = the sum over j of factors[i, j] * row j of the weight; the last column is the sum of factors[i].
// Each product is rounded to a multiple of 2^-30. So sums below 2^23 are exact, and have the same bits in any
// order and for any division of the weight's rows. factors: [rows, out_features], sums: [rows, in_features +
// 1]. Rows of the weight whose factors are all 0 cost nothing.
void sum_weighted_rows(const PackedView& weight, TensorView<const float> factors, TensorView<double> sums);

}  // namespace tp::kernels

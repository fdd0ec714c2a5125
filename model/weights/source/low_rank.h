// Sums of a weight and a product of two narrow matrices.
#pragma once

#include "tp/tensor.h"

#include <cassert>
#include <cstddef>

namespace tp {

// out += scale * left . right, in doubles, rounded once. left: [rows, rank], right: [rank, columns], out:
// [rows, columns].
inline void add_low_rank(TensorView<const float> left, TensorView<const float> right, double scale,
                         TensorView<float> out) {
  assert(left.rows() == out.rows() && left.columns() == right.rows() && right.columns() == out.columns());
  for (std::size_t row = 0; row < out.rows(); ++row) {
    for (std::size_t column = 0; column < out.columns(); ++column) {
      double sum = 0.0;
      for (std::size_t i = 0; i < left.columns(); ++i)
        sum += static_cast<double>(left(row, i)) * right(i, column);
      out(row, column) = static_cast<float>(out(row, column) + scale * sum);
    }
  }
}

}  // namespace tp

// Matrices of the naive references: double precision, owned, no strides.
#pragma once

#include "tp/tensor.h"

#include <cstddef>
#include <vector>

namespace tp::reference {

struct Matrix {
  Matrix() = default;
  Matrix(std::size_t row_count, std::size_t column_count)
      : rows(row_count), columns(column_count), values(row_count * column_count) {}
  // Widens float32 elements to double.
  explicit Matrix(TensorView<const float> view) : Matrix(view.rows(), view.columns()) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) (*this)(r, c) = view(r, c);
    }
  }

  double& operator()(std::size_t row, std::size_t column) { return values.at(row * columns + column); }
  double operator()(std::size_t row, std::size_t column) const { return values.at(row * columns + column); }

  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<double> values;  // [rows, columns]
};

}  // namespace tp::reference

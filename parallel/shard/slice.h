#pragma once

#include "parallel/shard/shard.h"

#include <cstddef>

namespace tp {

// The shape of a stored matrix. A vector counts as one row.
struct MatrixShape {
  std::size_t rows = 0;
  std::size_t columns = 0;

  std::size_t size() const { return rows * columns; }
  bool operator==(const MatrixShape&) const = default;
};

// A block of a stored matrix: rows (output features) of a column-parallel weight, or columns (input features)
// of a row-parallel weight.
struct TensorSlice {
  Range rows;
  Range columns;

  static TensorSlice whole(MatrixShape shape) { return {{0, shape.rows}, {0, shape.columns}}; }
  static TensorSlice of_rows(MatrixShape shape, Range rows) { return {rows, {0, shape.columns}}; }
  static TensorSlice of_columns(MatrixShape shape, Range columns) { return {{0, shape.rows}, columns}; }

  std::size_t size() const { return rows.size() * columns.size(); }
  bool fits(MatrixShape shape) const {
    return rows.begin <= rows.end && columns.begin <= columns.end && rows.end <= shape.rows &&
           columns.end <= shape.columns;
  }
};

}  // namespace tp

// Rows of a matrix as stored in a file.
#pragma once

#include "tp/tensor.h"

#include <cstddef>

namespace tp {

// [rows, columns] elements of a type. `stride`: bytes from one row to the next. May be unaligned.
struct StoredRows {
  DType type = DType::f32;
  const std::byte* data = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t stride = 0;

  static StoredRows of(TensorView<const float> view) {
    return {DType::f32, reinterpret_cast<const std::byte*>(view.data()), view.rows(), view.columns(),
            view.stride() * sizeof(float)};
  }
  // Rows [begin, begin + count).
  StoredRows rows_from(std::size_t begin, std::size_t count) const {
    return {type, data + begin * stride, count, columns, stride};
  }
};

}  // namespace tp

// Rows of a matrix as stored in a file.
#pragma once

#include "tp/tensor.h"

#include <cstddef>

namespace tp {

// The place `index` elements after the beginning of an array; null if the array does not exist.
template <class T>
T* place_in(T* array, std::size_t index) {
  return array == nullptr ? nullptr : array + index;
}

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
    return {type, place_in(data, begin * stride), count, columns, stride};
  }
};

}  // namespace tp

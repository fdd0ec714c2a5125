// Reads NumPy's .npy files of float32.
#pragma once

#include "tp/tensor.h"

#include <cstddef>
#include <filesystem>
#include <vector>

namespace tp {

// A float32 array of one to three dimensions.
struct NpyArray {
  std::vector<std::size_t> shape;
  std::vector<float> values;

  // The rows of the last dimension; a vector is one row.
  TensorView<const float> view() const {
    const std::size_t columns = shape.back();
    return {values.data(), columns == 0 ? 0 : values.size() / columns, columns};
  }
};

// Reads a whole file. Throws Error if it is missing, or is not a little-endian float32 array of one to three
// dimensions in C order.
NpyArray read_npy(const std::filesystem::path& path);

}  // namespace tp

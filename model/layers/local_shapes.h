// What a rank holds of a part of the model, known without loading it.
#pragma once

#include "model/kernels/packed_weight.h"
#include "parallel/slice.h"

#include <cstddef>
#include <vector>

namespace tp {

struct LocalShapes {
  std::vector<MatrixShape> matrices;  // as they are packed, [out_features, in_features]
  std::size_t vector_elements = 0;    // of what stays float32: norms, biases and routers

  LocalShapes& operator+=(const LocalShapes& other) {
    matrices.insert(matrices.end(), other.matrices.begin(), other.matrices.end());
    vector_elements += other.vector_elements;
    return *this;
  }

  std::size_t parameters() const {
    std::size_t total = vector_elements;
    for (const MatrixShape& shape : matrices) total += shape.size();
    return total;
  }

  // With the matrices in this type.
  std::size_t bytes(WeightType type) const {
    std::size_t total = vector_elements * sizeof(float);
    for (const MatrixShape& shape : matrices)
      total += kernels::PackedLayout{type, shape.rows, shape.columns}.bytes();
    return total;
  }
};

}  // namespace tp

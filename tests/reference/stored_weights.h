// A checkpoint's weights in double precision, whole.
#pragma once

#include "model/weights/source/weight_source.h"
#include "tests/reference/matrix.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace tp::reference {

// Reads the tensor of this name.
Matrix stored(const WeightSource& source, const std::string& name, MatrixShape shape);

class StoredWeights {
 public:
  // `source` must outlive it.
  explicit StoredWeights(const WeightSource& source) : source_(source) {}

  // Each matrix is read once. `name` is the tensor's.
  const Matrix& matrix(const std::string& name, std::size_t rows, std::size_t columns);
  std::vector<double> vector(const std::string& name, std::size_t size);
  // x . weight^T, plus the bias, if any. `layer` is the layer's name.
  Matrix linear(const Matrix& x, const std::string& layer, std::size_t out_features, bool bias);

 private:
  const WeightSource& source_;
  std::map<std::string, Matrix> matrices_;
};

}  // namespace tp::reference

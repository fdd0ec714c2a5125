#include "tests/reference/stored_weights.h"

#include "tests/reference/kernels.h"

namespace tp::reference {

Matrix stored(const WeightSource& source, const std::string& name, MatrixShape shape) {
  std::vector<float> values(shape.size());
  const TensorView<float> view(values.data(), shape.rows, shape.columns);
  source.read(name, shape, TensorSlice::whole(shape), view);
  return Matrix(view);
}

const Matrix& StoredWeights::matrix(const std::string& name, std::size_t rows, std::size_t columns) {
  const auto found = matrices_.find(name);
  if (found != matrices_.end()) return found->second;
  return matrices_.emplace(name, stored(source_, name, {rows, columns})).first->second;
}

std::vector<double> StoredWeights::vector(const std::string& name, std::size_t size) {
  return matrix(name, 1, size).values;
}

Matrix StoredWeights::linear(const Matrix& x, const std::string& layer, std::size_t out_features, bool bias) {
  Matrix y = matmul(x, matrix(layer + ".weight", out_features, x.columns));
  if (bias) add_bias(vector(layer + ".bias", out_features), y);
  return y;
}

}  // namespace tp::reference

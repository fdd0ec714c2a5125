#include "tests/reference/stored_weights.h"

#include "tests/reference/kernels.h"

namespace tp::reference {

const Matrix& StoredWeights::matrix(const std::string& name, std::size_t rows, std::size_t columns) {
  const auto found = matrices_.find(name);
  if (found != matrices_.end()) return found->second;
  std::vector<float> values(rows * columns);
  const TensorView<float> view(values.data(), rows, columns);
  source_.read(name, {rows, columns}, TensorSlice::whole({rows, columns}), view);
  return matrices_.emplace(name, Matrix(view)).first->second;
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

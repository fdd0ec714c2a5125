#include "model/linear.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/matmul.h"

namespace tp {
namespace {

std::size_t count_rows(std::span<const OwnedRows> parts) {
  std::size_t rows = 0;
  for (const OwnedRows& part : parts) rows += part.rows.size();
  return rows;
}

}  // namespace

void LocalWeight::multiply(TensorView<const float> x, TensorView<float> y) const {
  kernels::matmul(x, view(), y);
}

ColumnParallelLinear::ColumnParallelLinear(WeightLoader& loader, std::span<const OwnedRows> parts, bool bias)
    : weight_(loader.rows_of_weights(parts), count_rows(parts), parts.front().layer.shape.columns) {
  if (bias) bias_ = loader.rows_of_biases(parts);
}

TensorView<float> ColumnParallelLinear::operator()(TensorView<const float> x, Workspace& workspace) const {
  const TensorView<float> y = workspace.take(x.rows(), weight_.out_features());
  weight_.multiply(x, y);
  if (!bias_.empty()) kernels::add_bias(bias_, y);
  return y;
}

RowParallelLinear::RowParallelLinear(WeightLoader& loader, const StoredLayer& layer, Range columns, bool bias)
    : weight_(loader.columns_of_weight(layer, columns), layer.shape.rows, columns.size()) {
  if (bias && loader.part().is_first()) {
    const std::vector<OwnedRows> whole = {{layer, {0, layer.shape.rows}}};
    bias_ = loader.rows_of_biases(whole);
  }
}

PartialSum RowParallelLinear::operator()(TensorView<const float> x, Workspace& workspace) const {
  const TensorView<float> y = workspace.take(x.rows(), weight_.out_features());
  weight_.multiply(x, y);
  if (!bias_.empty()) kernels::add_bias(bias_, y);
  return PartialSum(y);
}

}  // namespace tp

#include "model/layers/linear/headwise_adapters.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/experts.h"
#include "model/layers/linear/adapted_rows.h"
#include "model/layers/linear/adapter_weight.h"

#include <utility>

namespace tp {
namespace {

LocalWeight load_factor(WeightLoader& loader, const AdapterMatrix& matrix, Range rows) {
  StackedRows stacked(loader, matrix.shape.columns);
  stacked.append(matrix, {rows, {0, matrix.shape.columns}});
  return stacked.packed(loader, {0, matrix.shape.columns});
}

// The transpose of some rows. Refers to `matrix`.
AdapterMatrix transpose_of_rows(const AdapterMatrix& matrix, Range rows) {
  return {
      matrix.name,
      matrix.type,
      {matrix.shape.columns, rows.size()},
      [&matrix, rows](const TensorSlice& slice, TensorView<float> out) {
        std::vector<float> values(slice.size());
        const TensorView<float> stored(values.data(), slice.columns.size(), slice.rows.size());
        matrix.read({{rows.begin + slice.columns.begin, rows.begin + slice.columns.end}, slice.rows}, stored);
        for (std::size_t row = 0; row < out.rows(); ++row) {
          for (std::size_t column = 0; column < out.columns(); ++column)
            out(row, column) = stored(column, row);
        }
      }};
}

LocalWeight load_transposed(WeightLoader& loader, const AdapterMatrix& matrix, Range rows) {
  return load_factor(loader, transpose_of_rows(matrix, rows), {0, matrix.shape.columns});
}

}  // namespace

HeadwiseAdapters::HeadwiseAdapters(WeightLoader& loader, const StoredLayer& layer,
                                   std::span<const Range> heads, bool transposed)
    : heads_(heads.size()) {
  for_adapters(loader, [&](std::size_t index, const Adapter& adapter) {
    const AdapterLayer* const found = factors_of(loader, adapter, layer);
    if (found == nullptr || heads.empty()) return;
    Factors factors{.adapter = index, .down = {}, .up = {}, .scale = found->scale};
    const Range all_rows{0, found->rank()};
    if (transposed)
      factors.up.push_back(load_transposed(loader, found->a, all_rows));
    else
      factors.down.push_back(load_factor(loader, found->a, all_rows));
    for (const Range& rows : heads) {
      if (transposed)
        factors.down.push_back(load_transposed(loader, found->b, rows));
      else
        factors.up.push_back(load_factor(loader, found->b, rows));
    }
    all_.push_back(std::move(factors));
  });
}

void HeadwiseAdapters::add_to(TensorView<const float> x, const StepContext& step, TensorView<float> y) const {
  for_adapted_rows(all_, step, x.rows(), !y.empty(),
                   [&](const Factors& factors, std::span<const std::size_t> rows) {
                     add_rows(factors, x, rows, step, y);
                   });
}

void HeadwiseAdapters::add_rows(const Factors& factors, TensorView<const float> x,
                                std::span<const std::size_t> rows, const StepContext& step,
                                TensorView<float> y) const {
  Workspace& workspace = step.workspace;
  const Workspace::Frame frame(workspace);
  const TensorView<float> in = workspace.take(rows.size(), x.columns());
  kernels::gather_rows(x, rows, in);
  const std::size_t size = x.columns() / heads_;
  for (std::size_t head = 0; head < heads_; ++head) {
    const Workspace::Frame frame_of_head(workspace);
    const LocalWeight& down = factors.down[factors.down.size() == 1 ? 0 : head];
    const LocalWeight& up = factors.up[factors.up.size() == 1 ? 0 : head];
    const TensorView<float> inner = down.multiply(in.columns_from(head * size, size), workspace);
    kernels::scale(factors.scale, inner);
    const TensorView<float> out = up.multiply(inner, workspace);
    for (std::size_t i = 0; i < rows.size() && !out.empty(); ++i) {
      float* const sum = y.row(rows[i]) + head * (y.columns() / heads_);
      for (std::size_t feature = 0; feature < out.columns(); ++feature) sum[feature] += out(i, feature);
    }
  }
}

}  // namespace tp

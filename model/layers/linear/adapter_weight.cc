#include "model/layers/linear/adapter_weight.h"

#include "model/files/printable.h"
#include "tp/internal/require.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace tp {
namespace {

constexpr std::size_t kPanelRows = kernels::PackedLayout::kPanel;

void read_adapter_rows(const AdapterMatrix& matrix, const TensorSlice& slice, TensorView<float> out) {
  matrix.read(slice, out);
  const std::span<const float> values(out.data(), out.size());
  require<CheckpointError>(
      std::ranges::all_of(values, [](float value) { return std::isfinite(value); }),
      "the adapter's tensor {} contains NaN or infinity, expected numbers; get the adapter "
      "again",
      printable(matrix.name));
}

kernels::PackedLayout adapter_layout(const WeightLoader& loader, WeightType type, std::size_t rows,
                                     std::size_t columns, std::size_t leaf) {
  return {loader.adapter_type(type), rows, columns, loader.has_same_bits(), leaf};
}

void check_factors_of_layer(const Adapter& adapter, const AdapterLayer& found, const StoredLayer& layer) {
  require<CheckpointError>(!found.is_embedding && found.a.shape.columns == layer.shape.columns &&
                               found.b.shape.rows == layer.shape.rows,
                           "{}: the adapter {} has factors [{}, {}] and [{}, {}] of {}, expected [rank, {}] "
                           "and [{}, rank] ({}, {}); "
                           "choose an adapter of this model",
                           printable(adapter.place), printable(adapter.name), found.a.shape.rows,
                           found.a.shape.columns, found.b.shape.rows, found.b.shape.columns,
                           printable(layer.name), layer.shape.columns, layer.shape.rows, layer.in_reason,
                           layer.out_reason);
}

}  // namespace

const AdapterLayer* factors_of(WeightLoader& loader, const Adapter& adapter, const StoredLayer& layer) {
  const AdapterLayer* const found = adapter.find(layer.name);
  if (found == nullptr) return nullptr;
  check_factors_of_layer(adapter, *found, layer);
  loader.use(found->a);
  return found;
}

void StackedRows::append(const AdapterMatrix& matrix, const TensorSlice& slice) {
  const WeightType type = lossless_type(matrix.type);
  type_ = rows_ == 0 || type_ == type ? type : WeightType::f32;
  rows_ += slice.rows.size();
  if (!reads_ || slice.size() == 0) return;
  values_.resize(rows_ * columns_);
  read_adapter_rows(matrix, slice,
                    {values_.data() + (rows_ - slice.rows.size()) * columns_, slice.rows.size(), columns_});
}

LocalWeight StackedRows::packed(WeightLoader& loader, Range columns, std::size_t leaf) const {
  const kernels::PackedLayout layout = adapter_layout(loader, type_, rows_, columns.size(), leaf);
  loader.count_adapter(layout.bytes());
  if (!reads_) return LocalWeight::shape_of(layout);
  LocalWeight weight(layout);
  if (rows_ == 0 || columns.empty()) return weight;
  const TensorView<const float> own =
      TensorView<const float>(values_.data(), rows_, columns_).columns_from(columns.begin, columns.size());
  for_thread_parts(layout.panels(), own.size(), [&](std::size_t begin, std::size_t end) {
    const std::size_t first = begin * kPanelRows;
    weight.pack(first, StoredRows::of(own.rows_from(first, std::min(end * kPanelRows, rows_) - first)));
  });
  return weight;
}

LocalWeight load_saved_rows(WeightLoader& loader, const AdapterMatrix& matrix, Range rows) {
  constexpr std::size_t kAtOnce = 64 * kPanelRows;
  const std::size_t columns = matrix.shape.columns;
  const kernels::PackedLayout layout =
      adapter_layout(loader, lossless_type(matrix.type), rows.size(), columns, 0);
  loader.count_adapter(layout.bytes());
  if (!loader.reads()) return LocalWeight::shape_of(layout);
  LocalWeight weight(layout);
  std::vector<float> values;
  for (std::size_t row = 0; row < rows.size(); row += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, rows.size() - row);
    values.resize(count * columns);
    const TensorView<float> some(values.data(), count, columns);
    read_adapter_rows(matrix, {{rows.begin + row, rows.begin + row + count}, {0, columns}}, some);
    weight.pack(row, StoredRows::of(some));
  }
  return weight;
}

}  // namespace tp

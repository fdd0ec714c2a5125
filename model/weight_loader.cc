#include "model/weight_loader.h"

#include "model/tensor_names.h"
#include "model/threads.h"

#include <algorithm>

namespace tp {
namespace {

// Rows that a thread reads before it packs them: whole panels, few enough to stay in its cache.
constexpr std::size_t kStagedRows = kernels::PackedLayout::kPanel;

}  // namespace

WeightType WeightLoader::type_of(const std::string& name) const {
  return type_ ? *type_ : lossless_type(source_.dtype(name));
}

// The slices' rows below each other. Every thread reads some panels, packs them and so touches them first.
LocalWeight WeightLoader::load(std::span<const Slice> slices, WeightType type) {
  std::size_t rows = 0;
  for (const Slice& slice : slices) rows += slice.part.rows.size();
  const std::size_t columns = slices.front().part.columns.size();
  LocalWeight weight(type, rows, columns);

  const auto read_rows = [&](Range wanted, TensorView<float> out) {
    std::size_t first = 0;  // of the slice at hand, among all rows
    for (const Slice& slice : slices) {
      const std::size_t begin = std::max(wanted.begin, first);
      const std::size_t end = std::min(wanted.end, first + slice.part.rows.size());
      if (begin < end) {
        const std::size_t offset = slice.part.rows.begin - first;  // wraps around where it is negative
        source_.read(slice.name, slice.shape, {{begin + offset, end + offset}, slice.part.columns},
                     out.rows_from(begin - wanted.begin, end - begin));
      }
      first += slice.part.rows.size();
    }
  };
  const std::size_t panels = (rows + kStagedRows - 1) / kStagedRows;
  for_thread_parts(panels, rows * columns, [&](std::size_t begin, std::size_t end) {
    std::vector<float> staging(kStagedRows * columns);
    for (std::size_t panel = begin; panel < end; ++panel) {
      const Range wanted{panel * kStagedRows, std::min(rows, (panel + 1) * kStagedRows)};
      const TensorView<float> staged(staging.data(), wanted.size(), columns);
      read_rows(wanted, staged);
      weight.pack(wanted.begin, staged);
    }
  });
  for (const Slice& slice : slices) finish(slice);
  return weight;
}

void WeightLoader::finish(const Slice& slice) {
  source_.done_with(slice.name);
  loaded_ += slice.part.size();
  if (progress_) progress_(loaded_);
}

LocalWeight WeightLoader::rows_of_weights(std::span<const OwnedRows> parts) {
  std::vector<Slice> slices;
  for (const auto& [layer, rows] : parts) {
    slices.push_back(
        {tensor_names::weight_of(layer.name), layer.shape, TensorSlice::of_rows(layer.shape, rows)});
    source_.expect(slices.back().name, layer.shape, layer.reason);
  }
  return load(slices, type_of(slices.front().name));
}

LocalWeight WeightLoader::rows_of_vocabulary(const OwnedRows& part) {
  const StoredLayer& layer = part.layer;
  const Slice slice{tensor_names::weight_of(layer.name), layer.shape,
                    TensorSlice::of_rows(layer.shape, part.rows)};
  source_.expect(slice.name, layer.shape, layer.reason);
  return load({&slice, 1}, vocabulary_type(type_of(slice.name)));
}

LocalWeight WeightLoader::columns_of_weight(const StoredLayer& layer, Range columns) {
  const Slice slice{tensor_names::weight_of(layer.name), layer.shape,
                    TensorSlice::of_columns(layer.shape, columns)};
  source_.expect(slice.name, layer.shape, layer.reason);
  return load({&slice, 1}, type_of(slice.name));
}

std::vector<float> WeightLoader::vector_of(const Slice& slice) {
  std::vector<float> vector(slice.part.columns.size());
  source_.read(slice.name, slice.shape, slice.part, TensorView<float>(vector.data(), 1, vector.size()));
  finish(slice);
  return vector;
}

std::vector<float> WeightLoader::rows_of_biases(std::span<const OwnedRows> parts) {
  std::vector<float> all;
  for (const auto& [layer, rows] : parts) {
    const MatrixShape shape{1, layer.shape.rows};
    const Slice slice{tensor_names::bias_of(layer.name), shape, TensorSlice::of_columns(shape, rows)};
    source_.expect(slice.name, shape, layer.reason);
    const std::vector<float> bias = vector_of(slice);
    all.insert(all.end(), bias.begin(), bias.end());
  }
  return all;
}

std::vector<float> WeightLoader::whole_vector(const std::string& name, std::size_t size,
                                              const std::string& reason) {
  const MatrixShape shape{1, size};
  source_.expect(name, shape, reason);
  return vector_of({name, shape, TensorSlice::whole(shape)});
}

}  // namespace tp

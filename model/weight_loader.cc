#include "model/weight_loader.h"

#include "model/tensor_names.h"
#include "model/threads.h"

namespace tp {

// Every thread reads, and thus first touches, a part of the rows.
void WeightLoader::read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                        TensorView<float> out) {
  for_thread_parts(slice.rows.size(), slice.size(), [&](std::size_t begin, std::size_t end) {
    const Range rows{slice.rows.begin + begin, slice.rows.begin + end};
    source_.read(name, shape, {rows, slice.columns}, out.rows_from(begin, end - begin));
  });
  source_.done_with(name);
  loaded_ += slice.size();
  if (progress_) progress_(loaded_);
}

Buffer<float> WeightLoader::rows_of_weights(std::span<const OwnedRows> parts) {
  std::size_t total = 0;
  for (const auto& [layer, rows] : parts) {
    source_.expect(tensor_names::weight_of(layer.name), layer.shape, layer.reason);
    total += rows.size();
  }
  const std::size_t columns = parts.front().layer.shape.columns;
  Buffer<float> weight(total * columns, "weights");
  std::size_t row = 0;
  for (const auto& [layer, rows] : parts) {
    const TensorView<float> out(weight.data() + row * columns, rows.size(), columns);
    read(tensor_names::weight_of(layer.name), layer.shape, TensorSlice::of_rows(layer.shape, rows), out);
    row += rows.size();
  }
  return weight;
}

std::vector<float> WeightLoader::rows_of_biases(std::span<const OwnedRows> parts) {
  std::vector<float> bias;
  for (const auto& [layer, rows] : parts) {
    const MatrixShape shape{1, layer.shape.rows};
    const std::string name = tensor_names::bias_of(layer.name);
    source_.expect(name, shape, layer.reason);
    bias.resize(bias.size() + rows.size());
    read(name, shape, TensorSlice::of_columns(shape, rows),
         TensorView<float>(bias.data() + bias.size() - rows.size(), 1, rows.size()));
  }
  return bias;
}

Buffer<float> WeightLoader::columns_of_weight(const StoredLayer& layer, Range columns) {
  const std::string name = tensor_names::weight_of(layer.name);
  source_.expect(name, layer.shape, layer.reason);
  Buffer<float> weight(layer.shape.rows * columns.size(), "weights");
  read(name, layer.shape, TensorSlice::of_columns(layer.shape, columns),
       TensorView<float>(weight.data(), layer.shape.rows, columns.size()));
  return weight;
}

std::vector<float> WeightLoader::whole_vector(const std::string& name, std::size_t size,
                                              const std::string& reason) {
  const MatrixShape shape{1, size};
  source_.expect(name, shape, reason);
  std::vector<float> vector(size);
  read(name, shape, TensorSlice::whole(shape), TensorView<float>(vector.data(), 1, size));
  return vector;
}

}  // namespace tp

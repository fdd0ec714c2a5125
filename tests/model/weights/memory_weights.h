// Weights with elements given by a test.
#pragma once

#include "model/weights/source/weight_source.h"

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tp::test {

class MemoryWeights final : public WeightSource {
 public:
  // values: [shape.rows, shape.columns]
  void add(const std::string& name, MatrixShape shape, std::vector<float> values) {
    if (values.size() != shape.size()) throw std::logic_error(name + ": wrong number of values");
    tensors_[name] = {shape, std::move(values)};
  }

  bool contains(const std::string& name) const override { return tensors_.count(name) != 0; }
  std::vector<std::string> names() const override { return {}; }
  DType dtype(const std::string&) const override { return DType::f32; }
  void expect(const std::string& name, MatrixShape shape, const std::string&) const override {
    if (!(tensors_.at(name).shape == shape)) throw std::logic_error(name + ": another shape is expected");
  }
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override {
    expect(name, shape, "");
    const std::vector<float>& values = tensors_.at(name).values;
    for (std::size_t r = 0; r < slice.rows.size(); ++r) {
      for (std::size_t c = 0; c < slice.columns.size(); ++c)
        out(r, c) = values[(slice.rows.begin + r) * shape.columns + slice.columns.begin + c];
    }
  }
  // From now on, rows can be mapped like those of files.
  void map_rows() { maps_ = true; }
  std::optional<MappedRows> mapped_rows(const std::string& name, MatrixShape shape) const override {
    if (!maps_) return std::nullopt;
    const float* const values = tensors_.at(name).values.data();
    const auto read = [values, columns = shape.columns](std::size_t row, float* out) {
      std::copy_n(values + row * columns, columns, out);
    };
    return MappedRows(shape.rows, {{.bytes = shape.columns * sizeof(float)}}, read);
  }
  std::size_t stored_bytes() const override { return 0; }
  std::size_t bytes_read() const override { return 0; }
  std::uint64_t fingerprint() const override { return 0; }
  void done_with(const std::string&) const override {}

 private:
  struct Tensor {
    MatrixShape shape;
    std::vector<float> values;
  };
  std::map<std::string, Tensor> tensors_;
  bool maps_ = false;
};

}  // namespace tp::test

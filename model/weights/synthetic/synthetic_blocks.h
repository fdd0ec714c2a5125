// Synthetic weights in the quantized types of checkpoints.
#pragma once

#include "model/weights/synthetic/synthetic_weights.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tp {

// Like SyntheticWeights, but matrices consist of random blocks of a type with a QuantFormat, as if read from
// a file. Nothing is quantized, so that a thousand million elements take seconds. Vectors come from
// SyntheticWeights. An element depends only on the seed, the tensor's name, its row and its column. Its mean
// is zero or nearly zero, its deviation that of SyntheticWeights.
class SyntheticBlocks final : public WeightSource {
 public:
  explicit SyntheticBlocks(WeightType type, std::uint64_t seed = 0)
      : type_(type), format_(*kernels::quant_format(type)), seed_(seed), vectors_(DType::bf16, seed) {}

  bool contains(const std::string& name) const override { return vectors_.contains(name); }
  std::vector<std::string> names() const override { return {}; }
  DType dtype(const std::string& name) const override { return vectors_.dtype(name); }
  // The type, if the columns are whole groups.
  std::optional<WeightType> group_type(const std::string& name, Range columns) const override;
  void expect(const std::string&, MatrixShape, const std::string&) const override {}
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override;
  void read_quantized(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                      const kernels::QuantizedRows& out) const override;
  std::vector<TypeUse> types() const override;
  std::size_t stored_bytes() const override { return 0; }
  std::size_t bytes_read() const override { return vectors_.bytes_read(); }
  std::uint64_t fingerprint() const override;
  void done_with(const std::string&) const override {}

 private:
  WeightType type_;
  const kernels::QuantFormat& format_;
  std::uint64_t seed_;
  SyntheticWeights vectors_;
};

}  // namespace tp

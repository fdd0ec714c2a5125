// Synthetic weights in the types that share scales over blocks.
#pragma once

#include "model/weights/synthetic/synthetic_matrices.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace tp {

// Like SyntheticBlocks, for types with a ScaledFormat, in the most common forms of checkpoints:
//   f8_e4m3      a float32 scale for 128 x 128 elements, like DeepSeek-V3
//   int8_scaled  an f16 scale for a row, like compressed-tensors' per-channel int8
//   nf4          a float32 scale for 64 columns, like bitsandbytes
//   int4_scaled  groups of 128 columns in any order with f16 scales and zero points, like GPTQ's act-order
class SyntheticScaled final : public SyntheticMatrices {
 public:
  explicit SyntheticScaled(WeightType type, std::uint64_t seed = 0) : SyntheticMatrices(type, seed) {}

  std::optional<WeightType> group_type(const std::string&, Range) const override { return type(); }
  // Records the shape for scales_of. Never throws.
  void expect(const std::string& name, MatrixShape shape, const std::string& reason) const override;
  void read_scaled(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                   const kernels::ScaledRows& out) const override;
  StoredScales scales_of(const std::string& name) const override;

 private:
  void read_matrix(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                   TensorView<float> out) const override;
  // The group of each column, if groups are in any order.
  const std::vector<std::uint16_t>& column_groups(std::size_t columns) const;
  // Makes the bits of a row's elements from the row's key.
  void make_elements(std::uint64_t row_key, Range columns, std::uint8_t* out) const;
  std::uint32_t scale_bits(std::size_t columns) const;

  mutable std::mutex mutex_;
  mutable std::map<std::string, std::size_t> columns_;  // by tensor
  mutable std::map<std::size_t, std::vector<std::uint16_t>> lists_;
};

}  // namespace tp

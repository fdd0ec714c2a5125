// Synthetic weights in the quantized types of checkpoints.
#pragma once

#include "model/weights/synthetic/synthetic_matrices.h"

#include <cstdint>
#include <string>

namespace tp {

// Like SyntheticWeights, but matrices consist of random blocks of a type with a QuantFormat, as if read from
// a file. Nothing is quantized, so that a thousand million elements take seconds. Vectors come from
// SyntheticWeights. An element depends only on the seed, the tensor's name, its row and its column. Its mean
// is zero or nearly zero, its deviation that of SyntheticWeights.
class SyntheticBlocks final : public SyntheticMatrices {
 public:
  explicit SyntheticBlocks(WeightType type, std::uint64_t seed = 0)
      : SyntheticMatrices(type, seed), format_(*kernels::quant_format(type)) {}

  // The type, if the columns are whole groups.
  std::optional<WeightType> group_type(const std::string& name, Range columns) const override;
  void read_quantized(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                      const kernels::QuantizedRows& out) const override;

 private:
  void read_matrix(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                   TensorView<float> out) const override;

  const kernels::QuantFormat& format_;
};

}  // namespace tp

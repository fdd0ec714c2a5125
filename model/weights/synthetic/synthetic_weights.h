// Weights without a checkpoint, for benchmarks and tests of models of any shape and size.
#pragma once

#include "model/weights/source/weight_source.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tp {

// Generates weights. An element depends only on the seed, the tensor's name and shape, its row and its
// column, so that every rank gets its slice of the same model. The values are like those of a sound,
// untrained model:
//
//   the gain of a norm  1 plus noise with standard deviation 0.05; "...norm.weight", "...ln_1.weight" or
//                       "...norm_1.weight"
//   "....bias"          uniform, standard deviation 0.02
//   other               uniform, standard deviation 1 / sqrt(columns), so that activations keep their size,
//                       and logits are near 1 even if the embedding is the LM head
//
// Values are rounded to the stored type: packing them in this type again loses nothing.
class SyntheticWeights final : public WeightSource {
 public:
  explicit SyntheticWeights(DType dtype = DType::bf16, std::uint64_t seed = 0) : dtype_(dtype), seed_(seed) {}

  // Always true.
  bool contains(const std::string& name) const override;
  // Empty: the source has tensors of any name.
  std::vector<std::string> names() const override;
  DType dtype(const std::string& name) const override;
  // Never throws: a tensor has the requested shape.
  void expect(const std::string& name, MatrixShape shape, const std::string& reason) const override;
  // Throws CheckpointError if the slice or `out` do not fit the shape.
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override;
  // Empty: no integers are stored.
  std::vector<std::int64_t> whole_numbers(const std::string& name, MatrixShape shape,
                                          const std::string& reason) const override;
  // Zero: nothing is stored.
  std::size_t stored_bytes() const override;
  // Bytes that the elements made so far would have in a file of this type.
  std::size_t bytes_read() const override;
  // A hash of the type and the seed.
  std::uint64_t fingerprint() const override;
  void done_with(const std::string& name) const override;

 private:
  DType dtype_;
  std::uint64_t seed_;
  mutable std::atomic<std::size_t> bytes_read_ = 0;
};

}  // namespace tp

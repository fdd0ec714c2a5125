// Synthetic weights whose matrices have one type of checkpoints.
#pragma once

#include "model/weights/synthetic/synthetic_weights.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tp {

// Like SyntheticWeights, except the matrices, which derived classes make. Vectors come from SyntheticWeights.
class SyntheticMatrices : public WeightSource {
 public:
  SyntheticMatrices(WeightType type, std::uint64_t seed)
      : type_(type), seed_(seed), vectors_(DType::bf16, seed) {}

  bool contains(const std::string& name) const override { return vectors_.contains(name); }
  std::vector<std::string> names() const override { return {}; }
  DType dtype(const std::string& name) const override { return vectors_.dtype(name); }
  void expect(const std::string&, MatrixShape, const std::string&) const override {}
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const final;
  std::vector<TypeUse> types() const override;
  std::size_t stored_bytes() const override { return 0; }
  std::size_t bytes_read() const override { return vectors_.bytes_read(); }
  std::uint64_t fingerprint() const override;
  void done_with(const std::string&) const override {}

 protected:
  // Reads a slice that fits the shape.
  virtual void read_matrix(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                           TensorView<float> out) const = 0;
  // The key from which the elements of a row are made.
  std::uint64_t key_of(const std::string& name, std::size_t row) const;

  WeightType type() const { return type_; }
  std::uint64_t seed() const { return seed_; }

 private:
  WeightType type_;
  std::uint64_t seed_;
  SyntheticWeights vectors_;
};

}  // namespace tp

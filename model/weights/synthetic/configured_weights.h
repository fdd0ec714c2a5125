// Weights that only a config.json describes.
#pragma once

#include "model/weights/quantized/quantized_layers.h"
#include "model/weights/synthetic/synthetic_scaled.h"
#include "model/weights/synthetic/synthetic_weights.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace tp {

// Has the types, and thus the sizes, of a checkpoint without its files. Elements cannot be read.
class ConfiguredWeights final : public WeightSource {
 public:
  ConfiguredWeights(DType dtype, std::vector<QuantizedLayers> layers);

  bool contains(const std::string& name) const override { return plain_.contains(name); }
  std::vector<std::string> names() const override { return {}; }
  DType dtype(const std::string& name) const override { return plain_.dtype(name); }
  std::optional<WeightType> group_type(const std::string& name, Range columns) const override;
  // Records the shape, on which the choice of a type depends. Never throws.
  void expect(const std::string& name, MatrixShape shape, const std::string& reason) const override;
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override;
  // Only their size.
  std::optional<MappedRows> mapped_rows(const std::string& name, MatrixShape shape) const override;
  StoredScales scales_of(const std::string& name) const override;
  // The types of quantized layers, assuming square matrices; empty if there are none.
  std::vector<TypeUse> types() const override;
  std::size_t stored_bytes() const override { return 0; }
  std::size_t bytes_read() const override { return 0; }
  std::uint64_t fingerprint() const override { return plain_.fingerprint(); }
  void done_with(const std::string&) const override {}

 private:
  const QuantizedLayers* find(const std::string& name) const;

  SyntheticWeights plain_;
  SyntheticScaled in_any_order_;  // for groups of columns in any order
  std::vector<QuantizedLayers> layers_;
  mutable std::map<std::string, MatrixShape> shapes_;
};

}  // namespace tp

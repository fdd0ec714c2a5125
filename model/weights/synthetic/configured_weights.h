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

// Has the types, and so the sizes, of the checkpoint that is not there. Elements cannot be read.
class ConfiguredWeights final : public WeightSource {
 public:
  ConfiguredWeights(DType dtype, std::vector<QuantizedLayers> layers);

  bool contains(const std::string& name) const override { return plain_.contains(name); }
  std::vector<std::string> names() const override { return {}; }
  DType dtype(const std::string& name) const override { return plain_.dtype(name); }
  std::optional<WeightType> group_type(const std::string& name, Range columns) const override;
  // Notes the shape, by which a type is chosen. Never throws.
  void expect(const std::string& name, MatrixShape shape, const std::string& reason) const override;
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override;
  StoredScales scales_of(const std::string& name) const override;
  // The types of quantized layers, as if their matrices were square; empty if there are none.
  std::vector<TypeUse> types() const override;
  std::size_t stored_bytes() const override { return 0; }
  std::size_t bytes_read() const override { return 0; }
  std::uint64_t fingerprint() const override { return plain_.fingerprint(); }
  void done_with(const std::string&) const override {}

 private:
  const QuantizedLayers* find(const std::string& name) const;

  SyntheticWeights plain_;
  SyntheticScaled in_any_order_;  // which columns are in which group
  std::vector<QuantizedLayers> layers_;
  mutable std::map<std::string, MatrixShape> shapes_;
};

}  // namespace tp

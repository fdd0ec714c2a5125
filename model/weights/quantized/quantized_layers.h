// Which weights a quantization_config describes, for models whose weights are not there.
#pragma once

#include "model/weights/quantized/group_quantization.h"
#include "model/weights/quantized/layer_patterns.h"
#include "model/weights/quantized/stored_groups.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace tp {

// Layers that are quantized alike.
struct QuantizedLayers {
  GroupQuantization::Method method = GroupQuantization::Method::fp8;
  LayerPatterns targets{};  // empty: all layers
  LayerPatterns exempt{};   // layers that are not quantized
  bool is_e4m3 = false;
  unsigned bits = 4;
  std::size_t rows = 1;     // that share scales; 0: all
  std::size_t columns = 0;  // that do, or 0: all
  bool act_order = false;   // the columns of a group are anywhere
  bool has_zero_points = false;

  // Whether they contain the tensor. Only layers in a block are quantized. Throws ConfigError for a pattern
  // that takes too many steps.
  bool include(const std::string& tensor) const;
  // How a matrix of that shape is stored.
  StoredGroups stored(MatrixShape shape) const;
};

// The quantized layers of a model's folder, or of its config.json alone. Throws ConfigError, which names the
// method or the pattern that cannot be read.
std::vector<QuantizedLayers> find_quantized_layers(const std::filesystem::path& model);

}  // namespace tp

// Describes quantized weights by quantization_config, for models without weight files.
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
  bool with_head = false;   // the LM head, too, if the targets name it or are empty
  bool is_e4m3 = false;
  unsigned bits = 4;
  std::size_t rows = 1;     // rows that share scales; 0: all
  std::size_t columns = 0;  // columns that share scales; 0: all
  bool act_order = false;   // a group's columns are not contiguous
  bool has_zero_points = false;
  StoredGroups::Layout layout = StoredGroups::Layout::bytes;

  // Whether these layers contain the tensor. Layers outside blocks, except the head, are not quantized.
  // Throws ConfigError if a pattern takes too many steps.
  bool include(const std::string& tensor) const;
  // Layout of a matrix with this shape.
  StoredGroups stored(MatrixShape shape) const;
};

// The quantized layers that a model's folder or config.json describes. The first ones that include a tensor
// count. Throws ConfigError, naming the method or pattern that cannot be read.
std::vector<QuantizedLayers> find_quantized_layers(const std::filesystem::path& model);

}  // namespace tp

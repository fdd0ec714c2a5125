// Which tensors of a checkpoint are the parts of quantized weights.
#pragma once

#include "model/weights/quantized/group_quantization.h"
#include "model/weights/quantized/stored_groups.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tp {

struct QuantizedMatrix {
  StoredGroups groups;
  WeightType type;                  // that holds it at its size
  std::string stored;               // the name of the tensor of elements
  std::vector<std::string> shared;  // those of scales, zero points and the columns' groups
  std::vector<std::uint16_t> column_groups;
};

struct QuantizedMatrices {
  std::map<std::string, QuantizedMatrix> by_name;  // under which they are asked for
  std::set<std::string> parts;                     // tensors of the file that they consist of
};

// The type that holds such groups at their size.
WeightType type_of(const StoredGroups& weight);

// Throws CheckpointError if a quantized tensor lacks a part or has parts of other shapes.
QuantizedMatrices find_quantized_matrices(const SafetensorsCheckpoint& plain,
                                          const GroupQuantization& quantization);

}  // namespace tp

// Finds the tensors of a checkpoint that form quantized weights.
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
  WeightType type;                  // holds the matrix at its stored size
  std::string stored;               // name of the tensor of elements
  std::vector<std::string> shared;  // names of the tensors of scales, zero points and column groups
  std::vector<std::uint16_t> column_groups;
};

struct QuantizedMatrices {
  std::map<std::string, QuantizedMatrix> by_name;  // by requested name
  std::set<std::string> parts;                     // tensors of the file that belong to quantized matrices
};

// The type that holds these groups at their stored size.
WeightType type_of(const StoredGroups& weight);

// Throws CheckpointError if a quantized tensor lacks a part, or a part has the wrong shape.
QuantizedMatrices find_quantized_matrices(const SafetensorsCheckpoint& plain,
                                          const GroupQuantization& quantization);

}  // namespace tp

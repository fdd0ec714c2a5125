// Finds and checks the tensors that form quantized weights.
#pragma once

#include "model/weights/quantized/group_quantization.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

class QuantizedParts {
 public:
  using Raw = SafetensorsCheckpoint::Raw;

  // Refers to the checkpoint. Errors name the method.
  QuantizedParts(const SafetensorsCheckpoint& plain, GroupQuantization::Method method)
      : plain_(plain), method_(method) {}

  bool contains(const std::string& name) const { return plain_.contains(name); }
  // `types`: allowed types, separated by spaces. Throws CheckpointError if the tensor is missing or has
  // another type.
  Raw require(const std::string& name, std::string_view types) const;
  // A tensor of float32. Throws CheckpointError if it has another number of elements.
  const std::byte* floats(const std::string& name, std::size_t count) const;

 private:
  const SafetensorsCheckpoint& plain_;
  GroupQuantization::Method method_;
};

// Two dimensions, neither of them zero.
bool is_matrix(const std::vector<std::size_t>& shape);

// Throw CheckpointError if a tensor has another shape, or is no matrix.
void require_shape(const QuantizedParts::Raw& raw, const std::vector<std::size_t>& expected,
                   std::string_view reason);
void require_matrix(const QuantizedParts::Raw& raw);

// A name without its ending.
std::string layer_of(const std::string& name, std::string_view ending);

}  // namespace tp

// Reads blocks of GGUF's quantized types as integers, for panels that store the same integers.
#pragma once

#include "model/kernels/packed_weight.h"
#include "model/weights/gguf/gguf_type.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <optional>

namespace tp {

// The in-memory type that stores a type's integers and scales exactly, if there is one; it has a QuantFormat.
std::optional<WeightType> quantized_type(const GgufType& type);

// Reads the super-blocks of 256 that `columns` touch, as row `index` of `out`. `row`: a row of `row_elements`
// elements, after which `out` has zeros. The type must have a quantized_type.
void read_quantized(const GgufType& type, const std::byte* row, std::size_t row_elements, Range columns,
                    const kernels::QuantizedRows& out, std::size_t index);

}  // namespace tp

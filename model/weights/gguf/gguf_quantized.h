// Blocks of GGUF's quantized types as integers, for panels that hold them as they are stored.
#pragma once

#include "model/kernels/packed_weight.h"
#include "model/weights/gguf/gguf_type.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <optional>

namespace tp {

// The in-memory type that holds exactly what the stored type does, if it has a QuantFormat.
std::optional<WeightType> quantized_type(const GgufType& type);

// A row of `row_elements` elements from `row` on: the super-blocks of 256 that `columns` touch, as row
// `index` of `out`. Beyond the row's end there are zeros. The type must have a quantized_type.
void read_quantized(const GgufType& type, const std::byte* row, std::size_t row_elements, Range columns,
                    const kernels::QuantizedRows& out, std::size_t index);

}  // namespace tp

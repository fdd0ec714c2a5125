// float32 to the stored types of GGUF files: the reverse of gguf_dequantize.h, which has the formats.
#pragma once

#include "model/weights/gguf/gguf_type.h"

#include <cstddef>
#include <span>

namespace tp {

// Whether there is an encoder for a type: all readable ones have one.
bool can_quantize(const GgufType& type);

// Writes a row, whose elements are whole blocks of the type and finite, as type.bytes_of(row.size()) bytes.
// F16 and BF16 are rounded to nearest even; groups of other types get the scales, and offsets, of least
// weighted squared error that a search finds (group_fit.h), Q8_0 that of the largest element. Threads may
// write different rows at once.
void quantize(const GgufType& type, std::span<const float> row, std::byte* out);

// The largest magnitude that elements may have: of types with f16 in them that of f16.
float largest_magnitude(const GgufType& type);

}  // namespace tp

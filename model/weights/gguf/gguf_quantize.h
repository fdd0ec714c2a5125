// Converts float32 to the stored types of GGUF files. gguf_dequantize.h, the reverse, describes the formats.
#pragma once

#include "model/weights/gguf/gguf_type.h"

#include <cstddef>
#include <span>

namespace tp {

// Writes a row as type.bytes_of(row.size()) bytes. Its elements must be finite and form whole blocks of the
// type. F16 and BF16 round to nearest even. Q8_0 derives scales from the largest element of a group. For
// other types, a search finds the scales and offsets with the least weighted squared error (group_fit.h).
// Throws CheckpointError for a type without an encoder: IQ1, IQ2, IQ3, TQ and NVFP4. Threads may write
// different rows at the same time.
void quantize(const GgufType& type, std::span<const float> row, std::byte* out);

// The largest magnitude that elements may have. In types that contain f16 numbers, it is that of f16.
float largest_magnitude(const GgufType& type);

}  // namespace tp

// Stored elements of GGUF files to float32, and those that are groups of small integers as they are.
//
// Source of the block layouts: ggml's block_q4_0 ... block_mxfp4. A scale is an f16. What the formats say:
//
//   Q8_0  32 int8 q and a scale d: d q                Q4_0, Q5_0  4 or 5 bits: d (q - 8), d (q - 16)
//   Q4_1, Q5_1  a scale and an offset: d q + m
//   Q2_K, Q4_K, Q5_K  256 elements in groups with small scales s and offsets t of their own: (d s) q - (m t)
//   Q3_K, Q6_K  256 elements in groups of 16 with small signed scales s: (d s) (q - 4), (d s) (q - 32)
//   IQ4_NL, IQ4_XS  4 bits that are places in a table of 16 values v: d v, (d s) v in groups of 32
//   MXFP4  the same with another table, and a power of two for each 32
#pragma once

#include "model/weights/gguf/gguf_type.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <cstdint>

namespace tp {

// Writes elements [columns.begin, columns.end) of the row that begins at `row`. Blocks are read whole; those
// that the range cuts are computed whole, too. The type must be a readable one.
void dequantize(const GgufType& type, const std::byte* row, Range columns, float* out);

// Whether a type is Q8_0 or Q4_0, which int8 and int4 hold.
bool has_groups(const GgufType& type);

// The integers of such a type, and the scale (f16) of every 32 of them. columns.begin is a multiple of 32,
// and so is columns.end.
void read_groups(const GgufType& type, const std::byte* row, Range columns, std::int8_t* elements,
                 std::uint16_t* scales);

}  // namespace tp

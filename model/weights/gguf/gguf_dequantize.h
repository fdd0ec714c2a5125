// Converts stored elements of GGUF files to float32, and reads groups of small integers unchanged.
//
// Source of the block layouts: ggml's block_q4_0 ... block_mxfp4. Scales are f16. The formats:
//
//   Q8_0  32 int8 q and a scale d: d q                Q4_0, Q5_0  4 or 5 bits: d (q - 8), d (q - 16)
//   Q4_1, Q5_1  a scale and an offset: d q + m
//   Q2_K, Q4_K, Q5_K  256 elements in groups, each with a small scale s and offset t: (d s) q - (m t)
//   Q3_K, Q6_K  256 elements in groups of 16 with small signed scales s: (d s) (q - 4), (d s) (q - 32)
//   IQ4_NL, IQ4_XS  4 bits that index a table of 16 values v: d v, (d s) v in groups of 32
//   TQ2_0  256 elements of 2 bits and one scale: d (q - 1)
//   IQ1, IQ2, IQ3, TQ1_0  see gguf_codes.h
//   MXFP4  like IQ4_NL with another table; the scale of 32 elements is a power of two
//   NVFP4  like MXFP4, with an FP8 scale for 16 elements; matrices may also have factors: see gguf_factor.h
#pragma once

#include "model/weights/gguf/gguf_type.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <cstdint>

namespace tp {

// Writes elements [columns.begin, columns.end) of the row at `row`. Reads and computes whole blocks, even if
// the range includes only parts of them. The type must be readable.
void dequantize(const GgufType& type, const std::byte* row, Range columns, float* out);

// Whether a type is Q8_0 or Q4_0, whose groups int8 and int4 store unchanged.
bool has_groups(const GgufType& type);

// Reads the integers of a type with groups, and the scale (f16) of each 32 integers. columns.begin and
// columns.end are multiples of 32.
void read_groups(const GgufType& type, const std::byte* row, Range columns, std::int8_t* elements,
                 std::uint16_t* scales);

}  // namespace tp

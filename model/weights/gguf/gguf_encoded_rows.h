// Rows of numbers with their scales that GGUF files store as bytes, because GGUF has no type for them: n
// elements of F8_E4M3, then the scale of each 32 elements, a power of two (E8M0). Files name the format of
// hash tables' rows in ARCHITECTURE.engram.encoding: "e4m3_e8m0_32_row264" if n is 256. Source: antirez, ds4.
#pragma once

#include "model/kernels/scaled_weight.h"
#include "model/weights/gguf/gguf_files.h"
#include "model/weights/gguf/gguf_type.h"
#include "model/weights/source/stored_scales.h"
#include "parallel/shard/shard.h"

#include <cstddef>

namespace tp {

// Whether a type is that of such rows. A block is a row.
constexpr bool is_encoded_row(const GgufType& type) { return type.name == "F8_E4M3"; }

// Gives the files' hash tables this type if their metadata names the format. Throws CheckpointError if the
// metadata says that the tables are in other files.
void find_encoded_rows(GgufFiles& files);

// Writes elements [columns.begin, columns.end) of the row at `row`.
void dequantize_encoded_row(const GgufType& type, const std::byte* row, Range columns, float* out);

// Reads the same elements unchanged, as the only row of `out`, and the scales of the groups that they touch.
void read_encoded_row(const GgufType& type, const std::byte* row, Range columns,
                      const kernels::ScaledRows& out);
StoredScales scales_of_encoded_row(const GgufType& type);

}  // namespace tp

// Tensors of integers in GGUF files.
#pragma once

#include "model/weights/gguf/gguf_files.h"
#include "parallel/shard/slice.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tp {

// The elements of a tensor of I32 or I64. `shape`, `reason`: as for WeightSource::expect; one row is a
// vector. Throws CheckpointError for another type or shape.
std::vector<std::int64_t> gguf_integers(const GgufFiles::Entry& entry, MatrixShape shape,
                                        const std::string& reason);

}  // namespace tp

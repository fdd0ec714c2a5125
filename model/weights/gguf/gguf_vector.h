// Reads small tensors of a GGUF file that are part of the config.
#pragma once

#include "model/weights/gguf/gguf_files.h"

#include <string_view>
#include <vector>

namespace tp {

// Reads all elements of a vector; returns an empty list if the tensor is missing. Throws CheckpointError if
// the tensor is not a vector.
std::vector<float> gguf_vector(const GgufFiles& files, std::string_view name);

}  // namespace tp

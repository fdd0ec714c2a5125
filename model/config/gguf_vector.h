// Small tensors of a GGUF file that belong to the model's description.
#pragma once

#include "model/weights/gguf/gguf_files.h"

#include <string_view>
#include <vector>

namespace tp {

// All elements of a vector; none if the file has no tensor of that name. Throws CheckpointError for a tensor
// that is no vector.
std::vector<float> gguf_vector(const GgufFiles& files, std::string_view name);

}  // namespace tp

// Converts a GGUF model's metadata to a Hugging Face config.json.
#pragma once

#include "model/weights/gguf/gguf_files.h"

#include <nlohmann/json.hpp>

namespace tp {

// Reconstructs the original checkpoint's config.json from metadata: all fields that parse_config reads.
// Throws CheckpointError if metadata is missing or has the wrong type, and ConfigError for unknown
// architectures.
nlohmann::json gguf_config(const GgufFiles& files);

}  // namespace tp

// Converts a GGUF model's metadata to a Hugging Face config.json.
#pragma once

#include "model/weights/gguf/gguf_files.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp {

// Reconstructs the original checkpoint's config.json from metadata: all fields that parse_config reads. A
// file may also carry it.
// Throws CheckpointError if metadata is missing or has the wrong type, and ConfigError for unknown
// architectures.
nlohmann::json gguf_config(const GgufFiles& files);

// The fields of config.json that describe RoPE. Throws CheckpointError or ConfigError for unsupported
// metadata.
nlohmann::json gguf_rope(const ModelMetadata& model);
// Throws ConfigError if the metadata contains a key about RoPE that has not been looked up, because it would
// be ignored.
void require_known_rope(const ModelMetadata& model);

}  // namespace tp

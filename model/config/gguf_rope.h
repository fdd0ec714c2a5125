#pragma once

#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp {

// The fields of config.json that describe RoPE. Throws CheckpointError or ConfigError for unsupported
// metadata.
nlohmann::json gguf_rope(const ModelMetadata& model);

// Throws ConfigError if the metadata contains a key about RoPE that has not been looked up, because it would
// be ignored.
void require_known_rope(const ModelMetadata& model);

}  // namespace tp

#pragma once

#include "model/weights/gguf/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp {

// The fields of config.json that say how a model rotates positions. Throws CheckpointError or ConfigError for
// metadata that cannot be honoured.
nlohmann::json gguf_rope(const ModelMetadata& model);

// Throws ConfigError if the metadata says something of RoPE that nothing has asked for: it would be ignored.
void require_known_rope(const ModelMetadata& model);

}  // namespace tp

// The families of models that GGUF files hold, as far as they differ from Llama.
#pragma once

#include "model/weights/checkpoint/gguf_model_metadata.h"

#include <nlohmann/json.hpp>

namespace tp {

// The fields of config.json that a family has besides Llama's, or has another value for. Throws ConfigError
// for an architecture that is not supported.
nlohmann::json gguf_family_config(const ModelMetadata& model);

}  // namespace tp

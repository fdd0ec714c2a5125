// The metadata of a GGUF model as a Hugging Face config.json.
#pragma once

#include "model/weights/gguf/gguf_files.h"

#include <nlohmann/json.hpp>

namespace tp {

// The config.json that the model's checkpoint had, as far as the metadata say: everything that parse_config
// reads. Throws CheckpointError if the metadata lacks something or has a value of another kind, and
// ConfigError for architectures that tp-infer does not know.
nlohmann::json gguf_config(const GgufFiles& files);

}  // namespace tp

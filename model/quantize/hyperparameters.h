// GGUF metadata that describes a model's architecture.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/config/spec.h"
#include "model/weights/gguf/gguf_values.h"

#include <string>

namespace tp {

// Throws ConfigError, naming the model, if GGUF has no architecture for its family, or tp-infer cannot write
// this architecture.
void write_hyperparameters(const CheckpointConfig& config, const ModelSpec& spec, const std::string& model,
                           GgufValues& values);

}  // namespace tp

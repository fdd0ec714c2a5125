#pragma once

#include "model/files/json_node.h"
#include "tp/model_config.h"

#include <string>

namespace tp {

// Reads the fields of config.json that say how layers differ: RoPE, windows, chunks and recurrence. `config`
// has the family's defaults and num_hidden_layers. Throws CheckpointError, or ConfigError if lists do not fit
// the layers; `where` names the file.
void read_layers(const JsonNode& fields, const std::string& where, ModelConfig& config);

}  // namespace tp

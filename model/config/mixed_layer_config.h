// Reads the fields of models whose layers have different sizes, share keys and values, or have own inputs.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/files/json_node.h"

#include <string>

namespace tp {

// layer_types must be read already. Throws ConfigError; `where` names the file.
void read_mixed_layers(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

}  // namespace tp

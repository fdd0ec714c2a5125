#pragma once

#include "model/config/checkpoint_config.h"
#include "model/config/family.h"
#include "model/files/json_node.h"

#include <string>

namespace tp {

// Reads the fields of config.json that describe differences between layers: RoPE, windows, chunks and
// recurrence. `family`: the model's. `config` contains its defaults and num_hidden_layers. Throws
// CheckpointError, or ConfigError if a list does not match the number of layers; `where` names the file.
void read_layers(const JsonNode& fields, const Family& family, const std::string& where,
                 CheckpointConfig& config);

// Reads the fields of models whose layers have different sizes, share keys and values, or have own inputs.
// After read_layers. Throws CheckpointError or ConfigError.
void read_mixed_layers(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

}  // namespace tp

// Reads the fields of models with Mamba-2 mixers.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/files/json_node.h"

#include <string>

namespace tp {

// hidden_size and num_hidden_layers must be read already. Throws ConfigError; `where` names the file.
void read_mamba(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

}  // namespace tp

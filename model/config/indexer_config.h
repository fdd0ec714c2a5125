// Reads the fields of indexers, which choose the positions that latent attention reads.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/files/json_node.h"

#include <string>

namespace tp {

// num_hidden_layers must be read already. Throws ConfigError; `where` names the file.
void read_indexer(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

}  // namespace tp

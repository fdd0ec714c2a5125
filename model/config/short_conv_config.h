// Reads LFM2's fields for types of layers and the width of MLPs.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/files/json_node.h"

#include <string>

namespace tp {

// Throws ConfigError; `where` names the file.
void read_short_convolutions(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

}  // namespace tp

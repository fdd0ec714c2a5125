#pragma once

#include "model/config/checkpoint_config.h"
#include "model/files/json_node.h"

namespace tp {

// Reads the fields of config.json that describe experts, if the model has any. Throws CheckpointError.
void read_experts(const JsonNode& fields, CheckpointConfig& config);

}  // namespace tp

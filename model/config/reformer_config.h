// Reads config.json's fields for Reformer.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/files/json_node.h"

namespace tp {

// Has no effect if config.json lacks attn_layers. Throws CheckpointError.
void read_reformer(const JsonNode& fields, CheckpointConfig& config);

}  // namespace tp

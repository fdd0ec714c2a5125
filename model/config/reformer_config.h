// Reads config.json's fields for Reformer.
#pragma once

#include "model/files/json_node.h"
#include "tp/model_config.h"

namespace tp {

// Has no effect if config.json lacks attn_layers. Throws CheckpointError.
void read_reformer(const JsonNode& fields, ModelConfig& config);

}  // namespace tp

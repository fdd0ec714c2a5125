#pragma once

#include "model/files/json_node.h"
#include "tp/model_config.h"

namespace tp {

// Reads the fields of config.json that describe experts, if the model has any. Throws CheckpointError.
void read_experts(const JsonNode& fields, ModelConfig& config);

}  // namespace tp

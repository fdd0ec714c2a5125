// The fields of config.json that only Reformer has.
#pragma once

#include "model/files/json_node.h"
#include "tp/model_config.h"

namespace tp {

// Where layers are "local" or "lsh". Throws CheckpointError.
void read_reformer(const JsonNode& fields, ModelConfig& config);

}  // namespace tp

// LFM2's fields for its layers and for the width of its MLPs.
#pragma once

#include "model/files/json_node.h"
#include "tp/model_config.h"

#include <string>

namespace tp {

// Throws ConfigError, in whose text `where` names config.json.
void read_short_convolutions(const JsonNode& fields, const std::string& where, ModelConfig& config);

}  // namespace tp

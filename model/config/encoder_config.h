// The fields of config.json that only encoders have.
#pragma once

#include "model/files/json_node.h"
#include "tp/model_config.h"

#include <string>

namespace tp {

// Sizes have been read before. `where` names the file in errors. Throws ConfigError or CheckpointError.
void read_encoder(const JsonNode& fields, const std::string& where, ModelConfig& config);
// mask_token_id, which only diffusion language models have.
void read_mask_token(const JsonNode& fields, const std::string& where, ModelConfig& config);

}  // namespace tp

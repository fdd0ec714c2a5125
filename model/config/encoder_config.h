// Reads config.json's fields for encoders and diffusion models.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/files/json_node.h"

#include <string>

namespace tp {

// Call after reading sizes. `where` names the file in errors. Throws ConfigError or CheckpointError.
void read_encoder(const JsonNode& fields, const std::string& where, CheckpointConfig& config);
// Reads mask_token_id, which only diffusion language models have.
void read_mask_token(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

}  // namespace tp

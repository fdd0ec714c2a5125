// Reads config.json's fields for encoders and diffusion models.
#pragma once

#include "model/files/json_node.h"
#include "tp/model_config.h"

#include <string>

namespace tp {

// Call after reading sizes. `where` names the file in errors. Throws ConfigError or CheckpointError.
void read_encoder(const JsonNode& fields, const std::string& where, ModelConfig& config);
// Reads mask_token_id, which only diffusion language models have.
void read_mask_token(const JsonNode& fields, const std::string& where, ModelConfig& config);

}  // namespace tp

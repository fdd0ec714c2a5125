// Reads config.json's fields for encoder-decoders.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/files/json_node.h"

#include <string>

namespace tp {

// Call after reading the fields of all models. `where` names the file in errors. Throws ConfigError.
void read_seq2seq(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

}  // namespace tp

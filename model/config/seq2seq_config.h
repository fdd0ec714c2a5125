// What config.json says about encoder-decoders only.
#pragma once

#include "model/files/json_node.h"
#include "tp/model_config.h"

#include <string>

namespace tp {

// After what all models have. `where` names the file in errors. Throws ConfigError.
void read_seq2seq(const JsonNode& fields, const std::string& where, ModelConfig& config);

}  // namespace tp

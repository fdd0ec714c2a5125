// From a family's name to the parts of its decoder.
#pragma once

#include "model/spec.h"
#include "tp/model_config.h"

#include <string>
#include <vector>

namespace tp {

// Throws ConfigError for a family that is not supported, or a config that its parts cannot express.
DecoderSpec make_spec(const ModelConfig& config);

// Throws ConfigError for a family that is not supported. The other fields of its config may have any names.
void require_supported(const std::string& architecture);

// The names that make_spec knows, as in `architectures` of config.json.
std::vector<std::string> supported_architectures();

}  // namespace tp

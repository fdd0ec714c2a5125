// From a family's name to the parts of its decoder.
#pragma once

#include "model/config/family.h"
#include "model/config/spec.h"
#include "tp/model_config.h"

#include <string>
#include <vector>

namespace tp {

// Throws ConfigError for a family that is not supported, or a config that its parts cannot express.
DecoderSpec make_spec(const ModelConfig& config);
// Of the model's layer that predicts the token after the next one. Checkpoints may lack it. Throws
// ConfigError if the family has none.
DecoderSpec make_next_token_spec(const ModelConfig& config);

// The family of that name, as in `architectures` of config.json, or that of a GGUF model. Throws ConfigError
// if it is not supported.
const Family& family_of(const std::string& architecture);
const Family& family_of(const ModelMetadata& model);

// The names that family_of knows.
std::vector<std::string> supported_architectures();

}  // namespace tp

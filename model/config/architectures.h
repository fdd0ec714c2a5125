// Finds a family by name, and makes the specs of its models.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/config/family.h"
#include "model/config/spec.h"

#include <string>
#include <vector>

namespace tp {

// Throws ConfigError if the family is not supported, or if its parts cannot express the config.
ModelSpec make_spec(const CheckpointConfig& config);
// The kind of the family's models, or non_causal.
ModelKind kind_of(const CheckpointConfig& config);
// The spec of the model's multi-token prediction layer, which checkpoints may lack. Throws ConfigError if the
// family has no such layer.
ModelSpec make_next_token_spec(const CheckpointConfig& config);

// Finds a family by a name from config.json's `architectures`, or the family of a GGUF model. Throws
// ConfigError if the family is not supported.
const Family& family_of(const std::string& architecture);
const Family& family_of(const ModelMetadata& model);

// The names that family_of knows.
std::vector<std::string> supported_architectures();

}  // namespace tp

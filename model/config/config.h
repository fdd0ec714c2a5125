// config.json, or the metadata of a GGUF file, to ModelConfig.
#pragma once

#include "tp/model_config.h"

#include <filesystem>
#include <string>

namespace tp {

// Reads `file`, or config.json or the GGUF file in it if it is a folder. Throws CheckpointError if it cannot
// be read or a value is missing or has the wrong type, and ConfigError if a value cannot work.
ModelConfig load_config(const std::filesystem::path& file);

// The same from JSON text; `name` stands for the file in error texts.
ModelConfig parse_config(const std::string& text, const std::string& name);

// The number of a head's elements that RoPE rotates.
std::size_t rotary_dim(const ModelConfig& config);

}  // namespace tp

// Reads config.json or a GGUF file's metadata into a CheckpointConfig.
#pragma once

#include "model/config/checkpoint_config.h"

#include <filesystem>
#include <string>

namespace tp {

// Reads `file`; if it is a folder, reads its config.json or GGUF file. If the model has hash tables by folded
// ids, also reads the tokenizer in the same folder. Throws CheckpointError if the file
// cannot be read, or if a value is missing or has the wrong type. Throws ConfigError if a value is invalid.
CheckpointConfig load_config(const std::filesystem::path& file);

// Like load_config, but reads JSON text. Errors call the file `name`.
CheckpointConfig parse_config(const std::string& text, const std::string& name);

// The number of elements per head that RoPE rotates.
std::size_t rotary_dim(const CheckpointConfig& config);

}  // namespace tp

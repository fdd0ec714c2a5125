// GGUF metadata of several residual streams, and of hash tables for them.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/config/spec.h"
#include "model/quantize/architecture_values.h"

#include <string>

namespace tp {

// Writes the numbers of AltUp or of hyper-connections, if the model has any.
void write_streams(const CheckpointConfig& config, const ModelSpec& spec, ArchitectureValues& values);

// Writes the numbers of the hash table, if the model has one. Throws ConfigError, naming the model, if it has
// several: files have one table, outside of the blocks.
void write_hash_table(const CheckpointConfig& config, const ModelSpec& spec, const std::string& model,
                      ArchitectureValues& values);

}  // namespace tp

// Limits of the sizes in config.json.
#pragma once

#include "model/config/checkpoint_config.h"

#include <cstddef>
#include <string>

namespace tp {

// The most layers, experts or heads.
constexpr std::size_t kMaxParts = 65536;

// Limits sizes: the program has an object for each layer, expert and head, and vectors of hidden_size,
// whatever it does with the model. Throws ConfigError; `where` names the file.
void require_countable_parts(const std::string& where, const CheckpointConfig& config);

}  // namespace tp

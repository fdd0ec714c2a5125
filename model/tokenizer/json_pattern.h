#pragma once

#include "model/tokenizer/json_node.h"
#include "model/tokenizer/regex.h"

namespace tp {

// Reads {"String": text} or {"Regex": pattern}. Throws CheckpointError, also when the pattern does not
// compile.
Regex pattern_from_json(const JsonNode& json);

}  // namespace tp

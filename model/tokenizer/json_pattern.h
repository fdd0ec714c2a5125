#pragma once

#include "model/tokenizer/regex.h"
#include "model/weights/checkpoint/json_node.h"

namespace tp {

// Reads {"String": text} or {"Regex": pattern}. Throws CheckpointError, also when the pattern does not
// compile.
Regex pattern_from_json(const JsonNode& json);

}  // namespace tp

#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/text/regex.h"

namespace tp {

// Reads {"String": text} or {"Regex": pattern}. Throws CheckpointError, also for a pattern that does not
// compile.
Regex pattern_from_json(const JsonNode& json);

}  // namespace tp

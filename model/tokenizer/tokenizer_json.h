#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/tokenizer.h"

namespace tp {

// Reads a tokenizer.json, the format of Hugging Face's `tokenizers` library. Throws CheckpointError, also for
// unsupported parts of the format.
TokenizerParts parts_from_json(const JsonNode& json);

}  // namespace tp

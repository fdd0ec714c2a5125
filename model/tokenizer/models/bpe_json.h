#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/models/bpe.h"

namespace tp {

// Reads the value of "model" of a tokenizer.json whose type is BPE. Throws CheckpointError.
Bpe bpe_from_json(const JsonNode& json);

}  // namespace tp

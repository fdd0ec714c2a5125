#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/models/bpe.h"

namespace tp {

// Reads "model" of a tokenizer.json with the type BPE. Throws CheckpointError.
Bpe bpe_from_json(const JsonNode& json);

}  // namespace tp

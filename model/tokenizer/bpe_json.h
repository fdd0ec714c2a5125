#pragma once

#include "model/tokenizer/bpe.h"
#include "model/weights/checkpoint/json_node.h"

namespace tp {

// Reads the value of "model" of a tokenizer.json whose type is BPE. Throws CheckpointError.
Bpe bpe_from_json(const JsonNode& json);

}  // namespace tp

#pragma once

#include "model/tokenizer/unigram.h"
#include "model/weights/checkpoint/json_node.h"

namespace tp {

// Reads the value of "model" of a tokenizer.json whose type is Unigram. Throws CheckpointError.
Unigram unigram_from_json(const JsonNode& json);

}  // namespace tp

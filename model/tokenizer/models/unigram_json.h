#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/models/unigram.h"

namespace tp {

// Reads the value of "model" of a tokenizer.json whose type is Unigram. Throws CheckpointError.
Unigram unigram_from_json(const JsonNode& json);

}  // namespace tp

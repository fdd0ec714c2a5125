#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/models/unigram.h"

namespace tp {

// Reads "model" of a tokenizer.json with the type Unigram. Throws CheckpointError.
Unigram unigram_from_json(const JsonNode& json);

}  // namespace tp

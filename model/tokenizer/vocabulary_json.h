#pragma once

#include "model/tokenizer/vocabulary.h"
#include "model/weights/checkpoint/json_node.h"

namespace tp {

// Reads an object of tokens and their ids, as "vocab" of a tokenizer.json's model. Throws CheckpointError.
Vocabulary vocabulary_from_json(const JsonNode& json);

}  // namespace tp

#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/text/vocabulary.h"

namespace tp {

// Reads an object of tokens and ids, such as "vocab" of a tokenizer.json's model. Throws CheckpointError.
Vocabulary vocabulary_from_json(const JsonNode& json);

}  // namespace tp

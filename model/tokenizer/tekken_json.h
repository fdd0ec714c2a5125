#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/tokenizer.h"

namespace tp {

// Mistral's tekken.json: the bytes of every token by rank, which is the order of merges, behind a fixed
// number of control tokens, and the pattern that cuts texts. `json` is the document. Throws CheckpointError.
TokenizerParts parts_from_tekken(const JsonNode& json);

}  // namespace tp

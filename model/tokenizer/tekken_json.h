#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/tokenizer.h"

namespace tp {

// Reads Mistral's tekken.json: the bytes of each token by rank, which is also the order of merges, and the
// pattern that cuts texts. Ids begin with a fixed number of control tokens. `json` is the document. Throws
// CheckpointError.
TokenizerParts parts_from_tekken(const JsonNode& json);

}  // namespace tp

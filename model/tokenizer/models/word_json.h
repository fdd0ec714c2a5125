// Reads the word models of a tokenizer.json from the value of "model". Both functions throw CheckpointError.
#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/models/word_level.h"
#include "model/tokenizer/models/word_piece.h"

namespace tp {

WordPiece word_piece_from_json(const JsonNode& json);
WordLevel word_level_from_json(const JsonNode& json);

}  // namespace tp

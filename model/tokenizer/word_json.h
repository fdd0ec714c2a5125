// Models of a tokenizer.json that know words: the value of "model". Both throw CheckpointError.
#pragma once

#include "model/tokenizer/word_level.h"
#include "model/tokenizer/word_piece.h"
#include "model/weights/checkpoint/json_node.h"

namespace tp {

WordPiece word_piece_from_json(const JsonNode& json);
WordLevel word_level_from_json(const JsonNode& json);

}  // namespace tp

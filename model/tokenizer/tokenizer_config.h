#pragma once

#include "model/tokenizer/tokenizer.h"
#include "model/weights/checkpoint/json_node.h"

#include <filesystem>
#include <string>

namespace tp {

// The text of a token that a configuration names: a string, or an object with "content" and flags.
std::string text_of_token(const JsonNode& token);

// What added_tokens.json, special_tokens_map.json and tokenizer_config.json in a folder, where they are, say
// about a tokenizer: more added tokens, which tokens are control tokens, BOS and EOS and whether they are put
// around texts, and the chat template. Throws CheckpointError.
void apply_tokenizer_config(const std::filesystem::path& folder, TokenizerParts& parts);

}  // namespace tp

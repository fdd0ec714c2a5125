#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/tokenizer.h"

#include <filesystem>
#include <string>

namespace tp {

// The text of a token in a configuration: a string, or an object with "content" and flags.
std::string text_of_token(const JsonNode& token);

// Completes a tokenizer from a folder's added_tokens.json, special_tokens_map.json and tokenizer_config.json,
// each of which may be missing. They contain added tokens, control tokens, BOS and EOS, and whether
// these surround texts. Throws CheckpointError.
void apply_tokenizer_config(const std::filesystem::path& folder, TokenizerParts& parts);

}  // namespace tp

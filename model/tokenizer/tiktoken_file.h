#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>

namespace tp {

// The tokenizer's file in Kimi's repositories.
inline constexpr const char* kTiktokenFile = "tiktoken.model";

// Reads a tiktoken.model. Each line contains a token's bytes in base64 and its rank, which is also its id.
// Encoding merges the bytes of a word in the order of the merged tokens' ranks. The rules for words and the
// control tokens are not in the file but in the repository's code; this function implements Kimi's. The 258
// control tokens follow the last rank and are named <|reserved_token_N|>, unless tokenizer_config.json names
// them. Source: tokenization_kimi.py of moonshotai/Kimi-K2-Instruct.
//
// Throws CheckpointError if the file is damaged.
TokenizerParts parts_from_tiktoken(const std::filesystem::path& file);

}  // namespace tp

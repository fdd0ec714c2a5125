#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>

namespace tp {

// The file of the tokenizer of Kimi's repositories.
constexpr const char* kTiktokenFile = "tiktoken.model";

// A tiktoken.model: a line for every token, with its bytes in base64 and its rank, which is its id, too. The
// tokens are bytes that are merged in the order of the ranks of the results. The file says nothing of words
// and control tokens, which the code beside it has: these are Kimi's. There are 258 control tokens behind the
// others, <|reserved_token_N|> unless tokenizer_config.json names them. Source: tokenization_kimi.py of
// moonshotai/Kimi-K2-Instruct.
//
// Throws CheckpointError for a file that is damaged.
TokenizerParts parts_from_tiktoken(const std::filesystem::path& file);

}  // namespace tp

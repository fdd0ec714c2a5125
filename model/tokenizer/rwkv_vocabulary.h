// RWKV's "World" vocabulary: tokens of any bytes, which are matched greedily.
#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tp {

// The tokenizer's file in RWKV's repositories.
inline constexpr const char* kRwkvVocabularyFile = "rwkv_vocab_v20230424.txt";

// Reads RWKV's vocabulary file. Each line contains an id, a token as a literal of Python, and the number of
// its bytes: "257 '\t\t' 2", "129 b'\x80' 1". Id 0 ends a text. It is not in the file and is called <s>,
// unless tokenizer_config.json names it. Source: hf_rwkv_tokenizer.py of RWKV/RWKV7-Goose-World3-1.5B-HF.
// Throws CheckpointError if the file is damaged.
TokenizerParts parts_from_rwkv_vocabulary(const std::filesystem::path& file);

// The first byte that has no token of its own. `vocabulary`: in the byte-level alphabet.
std::optional<int> byte_without_token(const Vocabulary& vocabulary);

// A tokenizer that always takes the longest token that matches. `tokens`: in the byte-level alphabet.
// `source` names the file in errors. Throws CheckpointError unless each byte has a token.
TokenizerParts longest_match_parts(const std::vector<std::pair<std::string_view, TokenId>>& tokens,
                                   const std::string& source);

// GGUF files spell tokens like Python's literals of bytes, without quotes. Returns the bytes of such a text,
// or nothing if it is not well-formed.
std::optional<std::string> bytes_of_escaped(std::string_view text);
std::string escaped_bytes(std::string_view bytes);

}  // namespace tp

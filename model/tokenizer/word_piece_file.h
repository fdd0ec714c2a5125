#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>

namespace tp {

// One token per line, whose id is its number from 0.
inline constexpr const char* kWordPieceFile = "vocab.txt";

// Reads BERT's tokenizer from the vocab.txt of a folder, as transformers' BertTokenizer does: with [CLS]
// before and [SEP] behind a text, and small letters without accents unless tokenizer_config.json says
// otherwise (do_lower_case, strip_accents, tokenize_chinese_chars, and the names of the special tokens).
// Throws CheckpointError.
TokenizerParts parts_from_word_piece_file(const std::filesystem::path& folder);

}  // namespace tp

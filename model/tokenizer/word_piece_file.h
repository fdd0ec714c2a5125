#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>

namespace tp {

// One token per line; its id is the line's number from 0.
inline constexpr const char* kWordPieceFile = "vocab.txt";

// Reads BERT's tokenizer from the vocab.txt of a folder, like transformers' BertTokenizer: with [CLS] before
// and [SEP] after a text, in lower case and without accents. tokenizer_config.json may override this
// (do_lower_case, strip_accents, tokenize_chinese_chars, and the names of the special tokens). Throws
// CheckpointError.
TokenizerParts parts_from_word_piece_file(const std::filesystem::path& folder);

}  // namespace tp

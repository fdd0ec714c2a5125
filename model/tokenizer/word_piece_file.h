#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>

namespace tp {

// Reads BERT's tokenizer from a vocab.txt, like transformers' BertTokenizer: with [CLS] before and [SEP]
// after a text, in lower case and without accents. The file has one token per line; its id is the line's
// number from 0. tokenizer_config.json beside it may override this (do_lower_case, strip_accents,
// tokenize_chinese_chars, and the names of the special tokens). Throws CheckpointError.
TokenizerParts parts_from_word_piece_file(const std::filesystem::path& file);

}  // namespace tp

#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// Whether a model's folder or GGUF file has a tokenizer that can be used. Throws CheckpointError for a
// damaged GGUF file.
bool holds_tokenizer(const std::filesystem::path& model);

// The faults of a vocabulary in a GGUF file, as gguf_vocabulary.h finds them. Other tokenizers have none.
struct TokenizerFlaws {
  std::optional<std::string> unsupported{};  // see unsupported_tokenizer
  std::vector<std::string> unknown_ids{};    // see unknown_token_ids
};
// Reads the file's metadata once. Throws CheckpointError for a damaged GGUF file.
TokenizerFlaws find_tokenizer_flaws(const std::filesystem::path& model);

// Reads the tokenizer of a folder, from the first of these that it has:
//   *.gguf                       a vocabulary in the weights' file
//   tokenizer.json               the format of Hugging Face's `tokenizers` library
//   tekken.json                  Mistral's
//   tokenizer.model              SentencePiece's
//   spiece.model                 SentencePiece's, of T5
//   source.spm and vocab.json    Marian's
//   vocab.json and merges.txt    byte-level BPE as GPT-2's repositories had it
//   vocab.txt                    WordPiece as BERT's repositories had it
// Beside all but the first, added_tokens.json, tokenizer_config.json and special_tokens_map.json are read
// too: see tokenizer_config.h.
//
// `path` may also be a GGUF file, a tokenizer.json, a tekken.json, or a *.model, which is taken as it is,
// without other files: control tokens that are written out in a text are text then. Throws CheckpointError
// for files that are missing, damaged, or use parts of their format that tp-infer does not support.
TokenizerParts load_tokenizer_parts(const std::filesystem::path& path);

}  // namespace tp

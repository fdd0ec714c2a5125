#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// Whether a model's folder or GGUF file contains a usable tokenizer. Throws CheckpointError for a damaged
// GGUF file.
bool holds_tokenizer(const std::filesystem::path& model);

// Flaws of the vocabulary in a GGUF file, see gguf_vocabulary.h. Other tokenizers have no flaws.
struct TokenizerFlaws {
  std::optional<std::string> unsupported{};  // see unsupported_tokenizer
  std::vector<std::string> unknown_ids{};    // see unknown_token_ids
};
// Reads the file's metadata once. Throws CheckpointError for a damaged GGUF file.
TokenizerFlaws find_tokenizer_flaws(const std::filesystem::path& model);

// Reads the tokenizer of a folder, from the first of these files that exists:
//   *.gguf                       a vocabulary in the weights' file
//   tokenizer.json               the format of Hugging Face's `tokenizers` library
//   tekken.json                  Mistral's format
//   tiktoken.model               Kimi's format
//   rwkv_vocab_v20230424.txt     RWKV's format
//   tokenizer.model              SentencePiece's format
//   spiece.model                 SentencePiece's format, T5's name
//   source.spm and vocab.json    Marian's files
//   vocab.json and merges.txt    byte-level BPE, as in GPT-2's repositories
//   vocab.txt                    WordPiece, as in BERT's repositories
// With all files except *.gguf, added_tokens.json, tokenizer_config.json and special_tokens_map.json are
// read, too: see tokenizer_config.h.
//
// `path` may also be a GGUF file, a tokenizer.json, a tekken.json, or a *.model, which is read without other
// files. Then control tokens that occur in a text count as text. Throws CheckpointError for files that are
// missing, damaged, or use unsupported parts of their format.
TokenizerParts load_tokenizer_parts(const std::filesystem::path& path);

}  // namespace tp

#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>

namespace tp {

// Whether a model's folder or GGUF file has a tokenizer. Throws CheckpointError for a damaged GGUF file.
bool holds_tokenizer(const std::filesystem::path& model);

// Reads a tokenizer.json, or the folder that holds one, or the vocabulary in a GGUF file.
// tokenizer_config.json and special_tokens_map.json beside it are read for the names of BOS and EOS and for
// the chat template. Throws CheckpointError for files that are missing, damaged, or use parts of their format
// that tp-infer does not support.
TokenizerParts load_tokenizer_parts(const std::filesystem::path& path);

}  // namespace tp

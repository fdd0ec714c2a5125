#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>

namespace tp {

// Reads a vocab.json and the merges.txt beside it: byte-level BPE with GPT-2's pre-tokenizer, or Qwen2's if
// tokenizer_config.json names its class. Throws CheckpointError.
TokenizerParts parts_from_vocabulary_files(const std::filesystem::path& path);

}  // namespace tp

#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>

namespace tp {

// Reads vocab.json and merges.txt in a folder: byte-level BPE with GPT-2's pre-tokenizer, or Qwen2's if
// tokenizer_config.json names its class. Throws CheckpointError.
TokenizerParts parts_from_vocabulary_files(const std::filesystem::path& folder);

}  // namespace tp

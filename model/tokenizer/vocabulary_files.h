#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>

namespace tp {

// Reads vocab.json and merges.txt in a folder: byte-level BPE, cut as GPT-2 or, if tokenizer_config.json
// names its class, Qwen2 does it. Throws CheckpointError.
TokenizerParts parts_from_vocabulary_files(const std::filesystem::path& folder);

}  // namespace tp

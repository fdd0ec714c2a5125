#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>

namespace tp {

// Reads a tokenizer.json, or the folder that holds one. tokenizer_config.json and special_tokens_map.json
// beside it are read for the names of BOS and EOS and for the chat template. Throws CheckpointError for files
// that are missing, damaged, or use parts of their format that tp-infer does not support.
TokenizerParts load_tokenizer_parts(const std::filesystem::path& path);

}  // namespace tp

// generation_config.json: what a checkpoint's authors recommend.
#pragma once

#include "tp/request.h"

#include <filesystem>
#include <string>
#include <vector>

namespace tp {

struct GenerationConfig {
  SamplingParams sampling;             // greedy if do_sample is false or absent
  std::vector<TokenId> eos_token_ids;  // empty if the file names none
  GenerationDefaults generation;
  std::string notice;  // names fields of transformers that would change texts, but are not supported
};

// Reads generation_config.json in a model's folder, or without it what older models have of it in
// config.json; without either, the defaults: greedy. Tokens that begin, end and must not be in texts, and
// settings of beam search, are config.json's where generation_config.json leaves them out. Throws
// CheckpointError or ConfigError if a file is there but wrong.
GenerationConfig load_generation_config(const std::filesystem::path& directory);

}  // namespace tp

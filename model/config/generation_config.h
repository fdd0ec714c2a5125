// generation_config.json: what a checkpoint's authors recommend.
#pragma once

#include "tp/request.h"

#include <filesystem>
#include <vector>

namespace tp {

struct GenerationConfig {
  SamplingParams sampling;             // greedy if do_sample is false or absent
  std::vector<TokenId> eos_token_ids;  // empty if the file names none
  GenerationDefaults generation;       // what the file leaves out, as config.json says
};

// Reads generation_config.json in a model's folder; without the file, the defaults: greedy. Throws
// CheckpointError or ConfigError if a file is there but wrong.
GenerationConfig load_generation_config(const std::filesystem::path& directory);

}  // namespace tp

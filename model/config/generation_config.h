// Reads generation_config.json, the defaults that a checkpoint's authors recommend.
#pragma once

#include "tp/request.h"

#include <filesystem>
#include <string>
#include <vector>

namespace tp {

struct GenerationConfig {
  SamplingParams sampling;             // greedy if do_sample is false or missing
  bool says_if_it_draws = false;       // whether there is a do_sample
  std::vector<TokenId> eos_token_ids;  // may be empty
  GenerationDefaults generation;
  std::string notice;  // names unsupported fields that would change texts
};

// Reads generation_config.json from a model's folder. Without this file, reads the fields that older models
// have in config.json; without either file, returns the defaults (greedy). If generation_config.json omits
// the decoder's start token, forced first and last tokens, forbidden tokens or beam search settings, they
// come from config.json. `has_canvases`: whether the model has canvases, whose settings are then read, too.
// Throws CheckpointError or ConfigError if a file is invalid.
GenerationConfig load_generation_config(const std::filesystem::path& directory, bool has_canvases = false);

}  // namespace tp

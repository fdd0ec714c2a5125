// What GGUF files say of a model's architecture, from its config.
#pragma once

#include "model/config/spec.h"
#include "model/weights/gguf/gguf_values.h"
#include "tp/model_config.h"

#include <filesystem>
#include <string>
#include <vector>

namespace tp {

// Throws ConfigError, naming the model, if there are no GGUF files of its family, or none that tp-infer
// writes.
void write_hyperparameters(const ModelConfig& config, const DecoderSpec& spec, const std::string& model,
                           GgufValues& values);

// What GGUF files have as tensors: divisors of RoPE's frequencies.
struct RopeFactors {
  std::string name;  // "rope_freqs.weight"
  std::vector<float> factors;
};
std::vector<RopeFactors> rope_factors(const DecoderSpec& spec);

// Throws ConfigError unless the header of a GGUF file describes this model. Windows apart, which the
// architecture llama does not have: `misses_windows` says whether they are missing.
struct HeaderCheck {
  bool misses_windows = false;
};
HeaderCheck check_header(const DecoderSpec& spec, const std::string& model,
                         const std::filesystem::path& header);

}  // namespace tp

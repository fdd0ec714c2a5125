// GGUF metadata that describes a model's architecture.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/config/spec.h"
#include "model/weights/gguf/gguf_values.h"

#include <string>
#include <vector>

namespace tp {

// Throws ConfigError, naming the model, if GGUF has no architecture for its family, or tp-infer cannot write
// this architecture.
void write_hyperparameters(const CheckpointConfig& config, const ModelSpec& spec, const std::string& model,
                           GgufValues& values);

// A tensor in GGUF files that replaces numbers of config.json: divisors of RoPE's frequencies, or factors of
// attention scores.
struct DescribingVector {
  std::string name;  // "rope_freqs.weight"
  std::vector<float> values;
};
std::vector<DescribingVector> describing_vectors(const ModelSpec& spec);

}  // namespace tp

// The config of a model for one of its tasks.
#pragma once

#include "model/config/config.h"

#include <filesystem>
#include <string>

namespace tp {

// Whether a model ranks documents by its answers yes and no: a decoder of a family with rerankers. Tokens of
// a decoder without causal attention do not follow each other.
bool ranks_by_answers(const CheckpointConfig& config);

// Reads a model's config for EngineOptions::task. For "rank", a decoder that answers yes and no becomes a
// classifier, and the ids of its answers are looked up in its tokenizer. Throws like load_config, and
// ConfigError if the model does not have this task.
CheckpointConfig load_config_for(const std::filesystem::path& model, const std::string& task);

}  // namespace tp

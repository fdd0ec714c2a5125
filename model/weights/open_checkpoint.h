// Opens the weights of a model in any format.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/weights/source/weight_source.h"

#include <filesystem>
#include <memory>

namespace tp {

// `model`: a GGUF file, a folder with one, or a folder with safetensors files. Throws CheckpointError.
std::unique_ptr<WeightSource> open_checkpoint(const std::filesystem::path& model);
// With the adapter that the config names, if the checkpoint stores adapters with its weights. Throws
// CheckpointError, and ConfigError if there is no such adapter.
std::unique_ptr<WeightSource> open_checkpoint(const std::filesystem::path& model,
                                              const CheckpointConfig& config);

}  // namespace tp

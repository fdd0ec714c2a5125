// Writes a model as a GGUF file of quantized weights.
#pragma once

#include "tp/engine_options.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tp {

struct QuantizeOptions {
  std::filesystem::path model;  // a Hugging Face folder or a GGUF file
  std::string name;             // the model's name in errors and the metadata
  std::string weights;          // one of TypeChoice::names()
  std::filesystem::path output;
  std::vector<AdapterOptions> adapters{};  // merged into the weights; only with a Hugging Face folder
};

// The tensors of one type.
struct QuantizedTensors {
  std::string type;
  std::size_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
};

struct QuantizeReport {
  std::vector<QuantizedTensors> types;  // the type with the most bytes first
  std::uint64_t file_bytes = 0;
  std::vector<std::string> notices;  // facts about the result that the user should know
};

// Called repeatedly with the number of finished elements and the total; may throw to stop the conversion.
using QuantizeProgress = std::function<void(std::uint64_t done, std::uint64_t all)>;

// Converts the model tensor by tensor, with all OpenMP threads. The file gets its name when it is complete.
// Throws CheckpointError if weights cannot be read or are not finite, ConfigError if a GGUF file cannot
// contain the model, and Error if the file cannot be written.
QuantizeReport quantize_model(const QuantizeOptions& options, const QuantizeProgress& progress);

}  // namespace tp

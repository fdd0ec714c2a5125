// A model written as a GGUF file of quantized weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tp {

struct QuantizeOptions {
  std::filesystem::path model;  // a folder of Hugging Face's format, or a GGUF file
  std::string name;             // what errors and the metadata call it
  std::string weights;          // one of TypeChoice::names()
  std::filesystem::path output;
};

// The tensors of one type.
struct QuantizedTensors {
  std::string type;
  std::size_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
};

struct QuantizeReport {
  std::vector<QuantizedTensors> types;  // that of the most bytes first
  std::uint64_t file_bytes = 0;
  std::vector<std::string> notices;  // what a user should know of the result
};

// Called now and then with the elements done and all of them; may throw to stop.
using QuantizeProgress = std::function<void(std::uint64_t done, std::uint64_t all)>;

// Reads the model tensor by tensor, uses all threads of OpenMP, and gives the file its name when it is
// complete. Throws CheckpointError for weights that cannot be read or are not finite, ConfigError for a model
// that such files cannot hold, Error for a file that cannot be written.
QuantizeReport quantize_model(const QuantizeOptions& options, const QuantizeProgress& progress);

}  // namespace tp

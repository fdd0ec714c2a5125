// Finds the description of quantized weights among a model's files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace tp {

struct QuantizationConfig {
  nlohmann::json fields{};
  std::string file{};        // that has them
  std::string method{};      // "awq", in lower case
  std::string model_type{};  // of config.json
  bool has_dtype = false;    // config.json says what is not quantized is stored as
};

// `model`: a folder, or a config.json with perhaps others beside it. Reads quantization_config in it, or what
// earlier tools wrote beside it: ModelOpt's hf_quant_config.json, AutoGPTQ's quantize_config.json, AutoAWQ's
// quant_config.json. Throws ConfigError where the method is not named and cannot be told, and for MLX.
std::optional<QuantizationConfig> find_quantization_config(const std::filesystem::path& model);

std::string lower_case(std::string text);

}  // namespace tp

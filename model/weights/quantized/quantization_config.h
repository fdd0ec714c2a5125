// Finds the description of quantized weights in a model's files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace tp {

struct QuantizationConfig {
  nlohmann::json fields{};
  std::string file{};          // the file that contains `fields`
  std::string method{};        // "awq", in lower case
  std::string model_type{};    // model_type of config.json
  std::string expert_dtype{};  // expert_dtype of config.json: "fp4" if DeepSeek's FP8 excludes experts
  bool has_dtype = false;      // config.json states the type of weights that are not quantized
};

inline constexpr const char* kQuantizationAdvice =
    "use a different quantization of the model, or the original with --weights int4 or int8";

// `model`: a folder, or a config.json. Reads quantization_config in it, or the files of earlier tools in the
// same folder: ModelOpt's hf_quant_config.json, AutoGPTQ's quantize_config.json, AutoAWQ's quant_config.json.
// Throws ConfigError if the method is missing and cannot be inferred, and for MLX.
std::optional<QuantizationConfig> find_quantization_config(const std::filesystem::path& model);

std::string lower_case(std::string text);

}  // namespace tp

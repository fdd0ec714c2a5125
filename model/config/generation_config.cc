#include "model/config/generation_config.h"

#include "model/weights/checkpoint/json_node.h"
#include "tp/internal/require.h"

#include <nlohmann/json.hpp>

namespace tp {

GenerationConfig load_generation_config(const std::filesystem::path& directory) {
  GenerationConfig config;
  config.sampling.temperature = 0.0F;
  const std::filesystem::path path = directory / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return config;

  const nlohmann::json document = read_json_file(path);
  const JsonNode fields(document, path);
  const auto number_or = [&](const char* field, float otherwise) {
    return static_cast<float>(fields.number_or(field, otherwise));
  };
  SamplingParams& sampling = config.sampling;
  if (fields.boolean_or("do_sample", false)) {
    sampling.temperature = number_or("temperature", 1.0F);
    // The default of transformers is the 50 best tokens; a file without top_k relies on it.
    sampling.top_k = fields.has("top_k") && fields.at("top_k").number() == 0
                         ? 0
                         : static_cast<int>(fields.size_or("top_k", 50));
    sampling.top_p = number_or("top_p", 1.0F);
    sampling.min_p = number_or("min_p", 0.0F);
  }
  sampling.repetition_penalty = number_or("repetition_penalty", 1.0F);
  if (const std::optional<JsonNode> eos = fields.find("eos_token_id"))
    config.eos_token_ids = eos->token_ids();
  try {
    sampling.validate();
  } catch (const RequestError& error) {
    throw_error<ConfigError>("{}: {}", path.string(), error.what());
  }
  return config;
}

}  // namespace tp

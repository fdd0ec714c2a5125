#include "model/config/generation_config.h"

#include "model/weights/checkpoint/json_node.h"
#include "tp/internal/require.h"

#include <nlohmann/json.hpp>

namespace tp {
namespace {

void read_id(const JsonNode& fields, const char* name, std::optional<TokenId>& id) {
  const std::optional<JsonNode> field = fields.find(name);
  if (!field) return;
  const std::vector<TokenId> ids = field->token_ids();
  require<ConfigError>(!ids.empty(), "{} is an empty list, expected a token id; check the model's files",
                       name);
  id = ids.front();
}

void read_beams(const JsonNode& fields, BeamSearch& beams) {
  beams.beams = static_cast<int>(fields.size_or("num_beams", static_cast<std::size_t>(beams.beams)));
  beams.length_penalty = static_cast<float>(fields.number_or("length_penalty", beams.length_penalty));
  const std::optional<JsonNode> stop = fields.find("early_stopping");
  if (!stop) return;
  if (stop->is_string())  // "never"
    beams.stop = BeamSearch::Stop::never;
  else
    beams.stop = stop->boolean() ? BeamSearch::Stop::early : BeamSearch::Stop::likely;
}

// What the file has replaces what is there.
void read_generation(const std::filesystem::path& path, GenerationDefaults& defaults) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return;
  const nlohmann::json document = read_json_file(path);
  const JsonNode fields(document, path);
  read_id(fields, "decoder_start_token_id", defaults.decoder_start);
  read_id(fields, "forced_bos_token_id", defaults.forced_first);
  read_id(fields, "forced_eos_token_id", defaults.forced_last);
  read_beams(fields, defaults.beams);
  if (!fields.has("bad_words_ids")) return;
  defaults.bad_words.clear();
  for (const JsonNode& word : fields.at("bad_words_ids").elements())
    defaults.bad_words.push_back(word.token_ids());
}

}  // namespace

GenerationConfig load_generation_config(const std::filesystem::path& directory) {
  GenerationConfig config;
  config.sampling.temperature = 0.0F;
  read_generation(directory / "config.json", config.generation);
  const std::filesystem::path path = directory / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return config;

  const nlohmann::json document = read_json_file(path);
  const JsonNode fields(document, path);
  const auto number_or = [&](const char* field, float otherwise) {
    return static_cast<float>(fields.number_or(field, otherwise));
  };
  read_generation(path, config.generation);
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

#include "model/config/generation_config.h"

#include "model/config/generation_fields.h"
#include "model/files/has_file.h"
#include "model/files/json_node.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

// Reads a whole number, which Python may have written as 50.0. Numbers outside int become its limits.
int whole_number(const JsonNode& field) {
  using Limits = std::numeric_limits<int>;
  const double number = field.number();
  if (std::trunc(number) != number) field.fail_type("a whole number");
  return static_cast<int>(std::clamp<double>(number, Limits::min(), Limits::max()));
}

// Reads a limit. Values below 1 mean no limit.
void read_count(const JsonNode& fields, const char* name, std::size_t& count) {
  if (const std::optional<JsonNode> field = fields.find(name))
    count = static_cast<std::size_t>(std::max(whole_number(*field), 0));
}

// Reads a token id or a list of ids. Negative ids mean no token. Ids too large for TokenId become its largest
// value, which no vocabulary contains.
std::vector<TokenId> token_ids(const JsonNode& field) {
  std::vector<TokenId> ids;
  for (const JsonNode& node : field.is_array() ? field.elements() : std::vector<JsonNode>{field}) {
    if (!node.value().is_number()) node.fail_type("a token id or a list of token ids");
    if (const int id = whole_number(node); id >= 0) ids.push_back(id);
  }
  return ids;
}

void read_ids(const JsonNode& fields, const char* name, std::vector<TokenId>& ids) {
  if (const std::optional<JsonNode> field = fields.find(name)) ids = token_ids(*field);
}

void read_id(const JsonNode& fields, const char* name, std::optional<TokenId>& id) {
  const std::optional<JsonNode> field = fields.find(name);
  if (!field) return;
  const std::vector<TokenId> ids = field->token_ids();
  require<ConfigError>(!ids.empty(), "{} is an empty list, expected a token id; check the model's files",
                       name);
  id = ids.front();
}

float number_or(const JsonNode& fields, const char* name, float otherwise) {
  return static_cast<float>(fields.number_or(name, otherwise));
}

void read_beams(const JsonNode& fields, BeamSearch& beams) {
  beams.length_penalty = number_or(fields, "length_penalty", beams.length_penalty);
  const std::optional<JsonNode> stop = fields.find("early_stopping");
  if (!stop) return;
  if (stop->is_string())  // "never"
    beams.stop = BeamSearch::Stop::never;
  else
    beams.stop = stop->boolean() ? BeamSearch::Stop::early : BeamSearch::Stop::likely;
}

// Reads the fields that config.json may have instead of generation_config.json.
void read_tokens(const JsonNode& fields, GenerationDefaults& defaults) {
  read_id(fields, "decoder_start_token_id", defaults.decoder_start);
  if (fields.boolean_or("force_bos_token_to_be_generated", false))  // BART's older field
    read_id(fields, "bos_token_id", defaults.forced_first);
  read_id(fields, "forced_bos_token_id", defaults.forced_first);
  read_id(fields, "forced_eos_token_id", defaults.forced_last);
  read_beams(fields, defaults.beams);
  if (!fields.has("bad_words_ids")) return;
  defaults.bad_words.clear();
  for (const JsonNode& word : fields.at("bad_words_ids").elements())
    defaults.bad_words.push_back(word.token_ids());
}

void read_sampling(const JsonNode& fields, SamplingParams& sampling) {
  sampling.repetition_penalty = number_or(fields, "repetition_penalty", 1.0F);
  if (!fields.boolean_or("do_sample", false)) return;
  sampling.temperature = number_or(fields, "temperature", 1.0F);
  // transformers samples from the 50 best tokens by default, and files without top_k rely on this. 0 means
  // all tokens; so does -1, which other programs write.
  const std::optional<JsonNode> top_k = fields.find("top_k");
  sampling.top_k = top_k ? std::max(whole_number(*top_k), 0) : 50;
  sampling.top_p = number_or(fields, "top_p", 1.0F);
  if (sampling.top_p == 0.0F) {  // keeps only the best token
    sampling.top_p = 1.0F;
    sampling.top_k = 1;
  }
  sampling.min_p = number_or(fields, "min_p", 0.0F);
}

// Reads [[[id], bias], ...]: biases of single tokens, and forbidden sequences (-Infinity). Returns whether
// the list contains other entries.
bool read_biases(const JsonNode& fields, GenerationConfig& config) {
  const std::optional<JsonNode> list = fields.find("sequence_bias");
  if (!list) return false;
  bool has_others = !list->is_array();
  for (const JsonNode& entry : has_others ? std::vector<JsonNode>() : list->elements()) {
    const std::vector<JsonNode> pair = entry.elements();
    if (pair.size() != 2) entry.fail_type("a list of token ids and a number");
    const std::vector<TokenId> ids = pair.front().token_ids();
    if (pair.back().is_string() && pair.back().string() == "-Infinity")
      config.generation.bad_words.push_back(ids);
    else if (ids.size() == 1 && !pair.back().is_string())
      config.sampling.logit_bias.push_back({ids.front(), static_cast<float>(pair.back().number())});
    else
      has_others = true;
  }
  return has_others;
}

void read_stop_texts(const JsonNode& fields, std::vector<std::string>& stop) {
  const std::optional<JsonNode> field = fields.find("stop_strings");
  if (!field) return;
  stop = field->is_string() ? std::vector{field->string()}
                            : fields.list_or_empty("stop_strings", &JsonNode::string);
  std::erase(stop, std::string());
}

void read_lengths(const JsonNode& fields, GenerationDefaults& defaults) {
  read_count(fields, "min_length", defaults.min_length);
  read_count(fields, "min_new_tokens", defaults.min_new_tokens);
  read_count(fields, "max_length", defaults.max_length);
  read_count(fields, "max_new_tokens", defaults.max_new_tokens);
}

// Reads a whole number from `min` on.
void read_whole(const JsonNode& fields, const char* name, int min, std::size_t& number) {
  constexpr int kMax = 1 << 20;  // as for the steps of a request
  const std::optional<JsonNode> field = fields.find(name);
  if (!field) return;
  const int found = whole_number(*field);
  require<ConfigError>(found >= min && found <= kMax,
                       "{}: {} must be a whole number from {} to {}, found {}; check the file", fields.file(),
                       name, min, kMax, found);
  number = static_cast<std::size_t>(found);
}

// Reads DiffusionGemma's sampler. Throws ConfigError if the sampler has a
// different class or unknown settings.
void read_canvas_sampler(const JsonNode& sampler, const std::string& file, CanvasDefaults& canvas) {
  constexpr std::string_view kClass = "_cls_name";
  constexpr std::string_view kSupported = "EntropyBoundSamplerConfig";
  constexpr std::string_view kBound = "entropy_bound";
  const std::string name = sampler.string_or(kClass, std::string(kSupported));
  require<ConfigError>(
      name == kSupported,
      "{}: sampler_config must be of the class {}, found \"{}\"; remove the field to use this sampler", file,
      kSupported, name);
  for (const auto& [member, value] : sampler.value().items())
    require<ConfigError>(member == kClass || member == kBound,
                         "{}: sampler_config has {}, expected only {}; remove it", file, member, kBound);
  canvas.entropy_bound = number_or(sampler, "entropy_bound", canvas.entropy_bound);
}

// Reads how DiffusionGemma turns canvases into text.
void read_canvas(const JsonNode& fields, CanvasDefaults& canvas) {
  read_whole(fields, "max_denoising_steps", 1, canvas.max_denoising_steps);
  read_whole(fields, "stability_threshold", 0, canvas.stability_threshold);
  canvas.t_min = number_or(fields, "t_min", canvas.t_min);
  canvas.t_max = number_or(fields, "t_max", canvas.t_max);
  canvas.confidence_threshold = number_or(fields, "confidence_threshold", canvas.confidence_threshold);
  if (const std::optional<JsonNode> sampler = fields.find("sampler_config"))
    read_canvas_sampler(*sampler, fields.file(), canvas);
  const auto is_positive = [](float number) { return std::isfinite(number) && number > 0.0F; };
  require<ConfigError>(canvas.t_min >= 0.0F && canvas.t_max > canvas.t_min && std::isfinite(canvas.t_max),
                       "{}: expected t_min >= 0 and a greater t_max, found {} and {}; check the file",
                       fields.file(), canvas.t_min, canvas.t_max);
  require<ConfigError>(is_positive(canvas.confidence_threshold) && is_positive(canvas.entropy_bound),
                       "{}: expected confidence_threshold and entropy_bound above 0, found {} and {}; check "
                       "the file",
                       fields.file(), canvas.confidence_threshold, canvas.entropy_bound);
}

std::string notice_of(const JsonNode& fields, bool has_other_biases) {
  std::vector<std::string> unsupported = unsupported_generation_fields(fields);
  if (has_other_biases) unsupported.emplace_back("sequence_bias of several tokens");
  if (unsupported.empty()) return {};
  return fmt::format("{}: {} {} not supported: texts may differ from those of transformers", fields.file(),
                     fmt::join(unsupported, ", "), unsupported.size() == 1 ? "is" : "are");
}

void read_generation(const JsonNode& fields, GenerationConfig& config) {
  read_sampling(fields, config.sampling);
  read_lengths(fields, config.generation);
  read_stop_texts(fields, config.generation.stop);
  read_ids(fields, "suppress_tokens", config.generation.suppressed);
  read_ids(fields, "begin_suppress_tokens", config.generation.suppressed_first);
  read_count(fields, "no_repeat_ngram_size", config.generation.no_repeat_ngram);
  config.notice = notice_of(fields, read_biases(fields, config));
}

void validate(const SamplingParams& sampling, const std::filesystem::path& path) {
  try {
    sampling.validate();
  } catch (const RequestError& error) {
    throw_error<ConfigError>("{}: {}", path.string(), error.what());
  }
}

// transformers once wrote its default maximum length and evaluation settings into every config.json. Ignores
// the default, and drops the notice about settings.
void leave_out_habits(GenerationConfig& config) {
  constexpr std::size_t kOldDefault = 20;
  if (config.generation.max_length == kOldDefault) config.generation.max_length = 0;
  config.notice.clear();
}

}  // namespace

GenerationConfig load_generation_config(const std::filesystem::path& directory, bool has_canvases) {
  GenerationConfig config;
  config.sampling.temperature = 0.0F;
  const std::filesystem::path own = directory / "generation_config.json";
  const bool has_own = has_file(own);
  for (const std::filesystem::path& path : {directory / "config.json", own}) {
    if (!has_file(path)) continue;
    const nlohmann::json document = read_json_file(path);
    const JsonNode fields(document, path);
    read_tokens(fields, config.generation);
    if (has_own && path != own) continue;
    read_generation(fields, config);
    if (has_own) {
      read_ids(fields, "eos_token_id", config.eos_token_ids);
      config.says_if_it_draws = fields.has("do_sample");
      if (has_canvases) read_canvas(fields, config.generation.canvas);
    } else {
      leave_out_habits(config);
    }
    validate(config.sampling, path);
  }
  return config;
}

}  // namespace tp

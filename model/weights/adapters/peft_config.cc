#include "model/weights/adapters/peft_config.h"

#include "model/files/json_node.h"
#include "model/files/printable.h"
#include "model/tokenizer/text/regex.h"
#include "tp/internal/require.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

// A setting that changes results, and that this program does not support.
struct RefusedSetting {
  std::string_view key;
  std::string_view what;
};

constexpr RefusedSetting kRefusedSwitches[] = {{"use_dora", "DoRA"},
                                               {"lora_bias", "biases of factors"},
                                               {"use_qalora", "QALoRA"},
                                               {"use_bdlora", "block-diagonal factors"}};
constexpr RefusedSetting kRefusedSettings[] = {
    {"layer_replication", "layers that are used several times"},
    {"target_parameters", "factors of parameters that are not layers"},
    {"alora_invocation_tokens", "activated LoRA"},
    {"trainable_token_indices", "vectors of single tokens"},
    {"arrow_config", "Arrow, a router among adapters"}};
// With these, PEFT changes the base model's weights before it adds the factors.
constexpr std::string_view kChangesBase[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};

bool has_setting(const nlohmann::json& value) {
  return !value.is_null() && value != false && !(value.is_structured() && value.empty());
}

[[noreturn]] void refuse_setting(const std::filesystem::path& file, std::string_view key,
                                 const std::string& found, std::string_view what) {
  throw_error<ConfigError>(
      "{}: cannot use an adapter with {}: `{}` is {}, expected none; merge it into the model with PEFT",
      printable(file.string()), what, key, printable(found));
}

void check_peft_settings(const JsonNode& config, const std::filesystem::path& file) {
  const nlohmann::json& all = config.value();
  const std::string type = config.string_or("peft_type", "LORA");
  require<ConfigError>(type == "LORA",
                       "{}: `peft_type` is {}, expected LORA; merge the adapter into the model "
                       "with PEFT",
                       printable(file.string()), printable(type));
  for (const RefusedSetting& refused : kRefusedSwitches) {
    if (config.boolean_or(refused.key, false)) refuse_setting(file, refused.key, "true", refused.what);
  }
  for (const RefusedSetting& refused : kRefusedSettings) {
    const auto found = all.find(refused.key);
    if (found != all.end() && has_setting(*found))
      refuse_setting(file, refused.key, found->dump(), refused.what);
  }
  const std::string bias = config.string_or("bias", "none");
  if (bias != "none") refuse_setting(file, "bias", bias, "biases that were trained");
  const auto start = all.find("init_lora_weights");
  if (start == all.end() || !start->is_string()) return;
  for (const std::string_view kind : kChangesBase) {
    if (start->get_ref<const std::string&>().starts_with(kind))
      refuse_setting(file, "init_lora_weights", start->dump(), "a start that changes the model's weights");
  }
}

// PEFT looks for a pattern at the end of a module's path, after a dot.
Regex regex_of_pattern(const std::string& pattern, const std::filesystem::path& file) {
  try {
    return Regex::from_python("(?:(.*\\.)?(" + pattern + ")$)");
  } catch (const RegexError& error) {
    throw_error<CheckpointError>("{}: `alpha_pattern` has {}, expected a regular expression: {}",
                                 printable(file.string()), printable(pattern), error.what());
  }
}

}  // namespace

PeftConfig::PeftConfig(const std::filesystem::path& file) : file_(file.string()) {
  constexpr std::size_t kMaxPatterns = 4096;
  const nlohmann::json document = read_json_file(file);
  const JsonNode config(document, file);
  check_peft_settings(config, file);
  alpha_ = config.number_or("lora_alpha", alpha_);
  uses_root_ = config.boolean_or("use_rslora", false);
  keeps_tied_ = config.boolean_or("ensure_weight_tying", false);
  const std::optional<JsonNode> patterns = config.find("alpha_pattern");
  if (!patterns) return;
  patterns->for_each_member(
      [](const std::string&, const nlohmann::json&) {});  // throws unless it is an object
  require<CheckpointError>(patterns->value().size() <= kMaxPatterns,
                           "{}: `alpha_pattern` has {} members, expected at most {}", printable(file_),
                           patterns->value().size(), kMaxPatterns);
  // The first match counts, so the order of the file matters, which nlohmann::json does not keep.
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto ordered = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!ordered.is_object()) config.fail("a file that has just changed", "an object");
  for (const auto& [pattern, alpha] : ordered.at("alpha_pattern").items())
    alphas_.emplace_back(regex_of_pattern(pattern, file), patterns->at(pattern).number());
}

double PeftConfig::scale_of(const std::string& module, std::size_t rank) const {
  double alpha = alpha_;
  for (const auto& [pattern, value] : alphas_) {
    bool matches = false;
    try {
      matches = pattern.begins(module);
    } catch (const RegexError& error) {
      throw_error<CheckpointError>("{}: cannot apply `alpha_pattern` to {}: {}; simplify the expressions",
                                   printable(file_), printable(module), error.what());
    }
    if (!matches) continue;
    alpha = value;
    break;
  }
  const auto size = static_cast<double>(rank);
  return alpha / (uses_root_ ? std::sqrt(size) : size);
}

}  // namespace tp

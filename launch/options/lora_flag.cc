#include "launch/options/lora_flag.h"

#include "launch/common/option_group.h"
#include "model/files/parse_number.h"

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr const char* kNoAdapter = "none";

// Parses NAME=PATH[:SCALE]. Returns nothing for other texts. A path may contain colons.
std::optional<AdapterOptions> parse_adapter(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos || equals == 0 || equals + 1 == text.size()) return std::nullopt;
  AdapterOptions adapter{.name = std::string(text.substr(0, equals)), .path = {}};
  std::string_view path = text.substr(equals + 1);
  if (const std::size_t colon = path.rfind(':'); colon != path.npos && colon != 0) {
    const std::optional<double> scale = parse_number<double>(path.substr(colon + 1));
    if (scale && std::isfinite(*scale)) {
      adapter.scale = *scale;
      path = path.substr(0, colon);
    }
  }
  adapter.path = std::string(path);
  if (adapter.name == kNoAdapter) return std::nullopt;
  return adapter;
}

}  // namespace

void add_lora_option(CLI::App& command, std::vector<AdapterOptions>& adapters,
                     const std::function<void()>& taken) {
  const auto check = [](const std::string& text) -> std::string {
    if (parse_adapter(text)) return {};
    return fmt::format("expected NAME=PATH or NAME=PATH:SCALE with a name other than {}, found {}",
                       kNoAdapter, text.empty() ? "an empty text" : text);
  };
  const auto take = [&adapters, taken](const std::vector<std::string>& texts) {
    adapters.clear();
    for (const std::string& text : texts) adapters.push_back(parse_adapter(text).value_or(AdapterOptions()));
    taken();
  };
  command
      .add_option_function<std::vector<std::string>>("--lora", take,
                                                     "An adapter (LoRA): a folder in PEFT's layout, or a "
                                                     "GGUF file; SCALE multiplies its effect; may be given "
                                                     "several times")
      ->check(CLI::Validator(check, ""))
      ->type_name("NAME=PATH[:SCALE]")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
}

void add_lora_options(CLI::App& command, EngineOptions& options) {
  add_lora_option(command, options.adapters, [&options] {
    if (options.adapters.size() == 1 && !options.default_adapter)
      options.default_adapter = options.adapters.front().name;
  });
  // A server's clients name the model or an adapter.
  const bool has_default = options.default_adapter.has_value();
  OptionGroup(command).add(
      "--adapter",
      [&options](const std::string& name) { options.default_adapter = name == kNoAdapter ? "" : name; },
      "NAME", not_empty("an adapter"),
      fmt::format("The adapter of --lora for prompts that name none; or none (default: {})",
                  has_default ? "the model alone" : "the only one"));
}

}  // namespace tp

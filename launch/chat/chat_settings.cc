#include "launch/chat/chat_settings.h"

#include "launch/options/other_names.h"
#include "model/files/similar_name.h"
#include "model/tokenizer/text/unicode.h"
#include "tp/internal/require.h"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

namespace tp {
namespace {

std::vector<std::string> names_in(const CLI::App& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options.get_options())
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  std::erase(names, "help");
  return names;
}

[[noreturn]] void refuse_name(const CLI::App& options, const std::string& name) {
  const std::vector<std::string> names = names_in(options);
  const std::string similar = similar_name(name, names);
  const std::string other = answer_to_other_option(options, options, "--" + name);
  if (similar.empty() && other.starts_with("here it is --"))
    throw_error<RequestError>("there is no setting {}; here it is {}", name, other.substr(13));
  throw_error<RequestError>("there is no setting {}; {}", name,
                            similar.empty() ? fmt::format("expected one of {}", fmt::join(names, ", "))
                                            : fmt::format("did you mean {}?", similar));
}

}  // namespace

std::vector<std::string> setting_names() {
  SamplingFlags flags;
  CLI::App options;
  flags.add_to(options);
  flags.add_thinking_option_to(options);
  return names_in(options);
}

void change_setting(SamplingFlags& flags, const std::string& text) {
  const std::size_t space = std::min(text.find_first_of(" ="), text.size());
  std::string name = text.substr(0, space);
  std::ranges::replace(name, '_', '-');
  const std::string value = unicode::stripped(text.substr(std::min(space + 1, text.size())), true, true);
  SamplingFlags changed = flags;
  CLI::App options;
  changed.add_to(options);
  changed.add_thinking_option_to(options);
  const std::vector<std::string> names = names_in(options);
  if (std::ranges::find(names, name) == names.end()) refuse_name(options, name);
  const bool is_flag = options.get_option("--" + name)->get_items_expected_max() == 0;
  require<RequestError>(is_flag || !value.empty(), "expected /set {} VALUE, found no value; add it", name);
  if (name == "temperature") changed.greedy = false;
  try {
    options.parse(std::vector<std::string>{"--" + name + (value.empty() ? "" : "=" + value)});
    SamplingFlags checked = changed;
    if (checked.greedy) checked.temperature.reset();  // it counts again without `greedy`
    checked.check();
  } catch (const CLI::ParseError& error) {
    throw RequestError(error.what());
  }
  flags = changed;
}

}  // namespace tp

#include "launch/common/option_names.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>

namespace tp {
namespace {

std::set<std::string>& flags() {
  static std::set<std::string> names;
  return names;
}

// Options of nameless subcommands are groups of the command's own.
void add_flags(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    flags().insert(option->get_lnames().begin(), option->get_lnames().end());
}

// Flags whose name differs from their field. The subcommand's first flag among them is meant.
std::vector<std::string> names_of(std::string field) {
  static const std::map<std::string, std::vector<std::string>> kOthers = {
      {"adapters", {"lora"}},
      {"bad_words", {"bad-word"}},
      {"max_length", {"max-length", "context"}},
      {"max_sequences", {"max-sequences", "batch"}},
      {"max_tokens", {"max-tokens", "generate"}},
      {"speculation", {"speculate"}},
      {"step_time", {"step-ms"}},
  };
  const auto found = kOthers.find(field);
  if (found != kOthers.end()) return found->second;
  std::ranges::replace(field, '_', '-');
  return {field};
}

// Returns "--max-sequences" for "max_sequences", or nothing.
std::string flag_of(const std::string& field) {
  for (const std::string& name : names_of(field))
    if (flags().contains(name)) return "--" + name;
  return {};
}

}  // namespace

void remember_flags(const CLI::App& app, const std::vector<std::string>& arguments) {
  const auto is_named = [&](const CLI::App* command) {
    return std::ranges::find(arguments, command->get_name()) != arguments.end();
  };
  const auto all = [](const CLI::App*) { return true; };
  std::vector<const CLI::App*> commands = app.get_subcommands(is_named);
  for (const CLI::App* command : commands.empty() ? app.get_subcommands(all) : commands) add_flags(*command);
}

std::string with_flags(const std::string& text) {
  static const std::regex kField("`([a-z_]+)`( 0)?");
  std::string result;
  std::string::const_iterator end = text.begin();
  for (std::sregex_iterator match(text.begin(), text.end(), kField), none; match != none; ++match) {
    const std::string field = (*match)[1];
    const std::string zero = (*match)[2];
    const bool is_exact = field == "favor_features" && !zero.empty();
    const std::string flag = is_exact ? "--attention exact" : flag_of(field);
    result.append(end, (*match)[0].first);
    result += flag.empty() ? match->str() : is_exact ? flag : flag + zero;
    end = (*match)[0].second;
  }
  return result.append(end, text.end());
}

}  // namespace tp

#include "launch/options/usage_error.h"

#include "launch/common/option_names.h"
#include "launch/hub/hub_name.h"
#include "launch/options/other_names.h"
#include "model/files/similar_name.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/ranges.h>

namespace tp {
namespace {

bool is_option(std::string_view argument) { return argument.size() > 1 && argument.front() == '-'; }

// "--seed" of "--seed=7"
std::string name_of(const std::string& argument) { return argument.substr(0, argument.find('=')); }

std::string without_dashes(const std::string& name) {
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

std::vector<std::string> long_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  return names;
}

// Returns `--prompt "Once upon a time"` if a shell would not change the text, otherwise `--prompt TEXT`.
std::string prompt_option(const std::string& text) {
  constexpr std::size_t kLongest = 60;
  const bool is_plain = text.size() <= kLongest && text.find_first_of("\"$`\\!\n") == std::string::npos;
  return is_plain ? fmt::format("--prompt \"{}\"", text) : "--prompt TEXT";
}

bool is_path(const std::string& text) {
  std::error_code error;
  return std::filesystem::exists(text, error);
}

std::string unknown_subcommand(const CLI::App& app, const std::string& word) {
  if (is_path(word) || parse_hub_name(word))
    return fmt::format(
        "expected a subcommand, found the model {0}; write tp-infer generate --model {0} "
        "--prompt TEXT, or another subcommand",
        word);
  if (word.find(' ') != std::string::npos)
    return fmt::format("expected a subcommand, found a text; write tp-infer generate {}",
                       prompt_option(word));
  const std::vector<std::string> names = subcommand_names(app);
  const std::string other = subcommand_of_other_name(word);
  const std::string similar = other.empty() ? similar_name(word, names) : other;
  return similar.empty()
             ? fmt::format("there is no subcommand {}; expected one of {}", word, fmt::join(names, ", "))
             : fmt::format("there is no subcommand {}; did you mean {}?", word, similar);
}

std::string unknown_option(const CLI::App& app, const CLI::App& command, const std::string& name) {
  if (command.get_option_no_throw(name) != nullptr)
    return fmt::format(
        "expected the subcommand before its options, found {1} first; write tp-infer {0} {1} ...",
        command.get_name(), name);
  const std::vector<std::string> owners = subcommand_names(app, name);
  if (&command == &app && !owners.empty())
    return fmt::format("there is no option {} here; it belongs to {}; write tp-infer {} {} ...", name,
                       fmt::join(owners, ", "), owners.front(), name);
  const std::string other = answer_to_other_option(app, command, name);
  if (!other.empty()) return fmt::format("there is no option {}; {}", name, other);
  if (!owners.empty())
    return fmt::format("there is no option {} here; it belongs to {}", name, fmt::join(owners, ", "));
  const std::string similar = similar_name(without_dashes(name), long_names(command));
  return similar.empty() ? fmt::format("there is no option {}", name)
                         : fmt::format("there is no option {}; did you mean --{}?", name, similar);
}

// CLI11 reads "-prompt Hello" as "-p rompt", and another program's "-md DIR" as "-m d", and reports the rest
// as extra arguments.
std::string single_dashed(const CLI::App& app, const CLI::App& command,
                          const std::vector<std::string>& arguments) {
  const std::vector<std::string> names = long_names(command);
  for (const std::string& argument : arguments) {
    const std::string name = without_dashes(name_of(argument));
    if (!is_option(argument) || argument[1] == '-' || name.size() < 2) continue;
    if (std::find(names.begin(), names.end(), name) != names.end() ||
        !answer_to_other_option(app, command, "-" + name).empty())
      return "-" + name;
  }
  return {};
}

// Finds "--model DIR". CLI11's messages begin or end with an option's name, or have it between blanks or
// before a colon.
std::string option_in(const CLI::App& command, const std::string& text) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool found = text == name || text.starts_with(name + " ") || text.starts_with(name + ":") ||
                       text.ends_with(" " + name) || text.find(" " + name + " ") != text.npos;
    if (found) return name + (option->get_type_name().empty() ? "" : " " + option->get_type_name());
  }
  return text;
}

// CLI11 reads the second option in "--model --prompt Hello" as the first one's value, and reports "Hello" as
// an extra argument.
std::string without_value(const CLI::App& command, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    const CLI::Option* option = command.get_option_no_throw(arguments[i]);
    const bool wants_value = option != nullptr && option->get_items_expected_min() > 0;
    if (wants_value && is_option(arguments[i + 1]) &&
        command.get_option_no_throw(arguments[i + 1]) != nullptr)
      return fmt::format("expected {}, found {} after it; add a value",
                         option_in(command, option->get_name()), arguments[i + 1]);
  }
  return {};
}

bool takes_text(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = command.get_option_no_throw(name);
  return option != nullptr && option->get_type_name() == "TEXT";
}

// "upon" of "--prompt Once upon"
bool continues_text(const CLI::App& command, const std::string& argument,
                    const std::vector<std::string>& arguments) {
  const auto at = std::find(arguments.begin(), arguments.end(), argument) - arguments.begin();
  return (at >= 2 && takes_text(command, arguments[static_cast<std::size_t>(at) - 2])) ||
         (at >= 1 && arguments[static_cast<std::size_t>(at) - 1].find('=') != std::string::npos &&
          takes_text(command, name_of(arguments[static_cast<std::size_t>(at) - 1])));
}

// Returns advice about an argument without an option before it.
std::string advice_for(const CLI::App& command, const std::string& argument,
                       const std::vector<std::string>& arguments) {
  if (continues_text(command, argument, arguments)) return "put a text with spaces in quotes";
  if (takes_text(command, "--prompt")) return "give a text with " + prompt_option(argument);
  if (command.get_name() == "chat")
    return "type it as the first message, or pipe it: echo TEXT | tp-infer chat";
  return "put a text with spaces in quotes";
}

// Whether the gateway took the argument for its own, because no -- precedes the server's command.
bool is_of_servers_command(const CLI::App& command, const std::string& argument,
                           const std::vector<std::string>& arguments) {
  if (command.get_name() != "gateway" || std::ranges::find(arguments, "--") != arguments.end()) return false;
  const std::vector<std::string> taken = command.get_option("COMMAND")->results();
  return !taken.empty() &&
         std::ranges::find(arguments, taken.front()) < std::ranges::find(arguments, argument);
}

std::string unexpected(const CLI::App& app, const CLI::App& command, const std::string& argument,
                       const std::vector<std::string>& arguments) {
  if (argument.empty())
    return fmt::format("expected {}, found an empty argument; is a variable unset?",
                       &command == &app ? "a subcommand" : "an option");
  if (is_of_servers_command(command, argument, arguments))
    return fmt::format(
        "expected -- before the command that starts the server, found {} without it; write "
        "tp-infer gateway -- mpirun -np 4 tp-infer serve --model DIR",
        argument);
  const std::string dashed = single_dashed(app, command, arguments);
  if (!dashed.empty()) return unknown_option(app, command, dashed);
  if (is_option(argument)) return unknown_option(app, command, name_of(argument));
  if (&command == &app) return unknown_subcommand(app, argument);
  const std::string missing = without_value(command, arguments);
  if (!missing.empty()) return missing;
  const bool has_model = command.get_option_no_throw("--model") != nullptr;
  if (has_model && is_path(argument))
    return fmt::format("expected an option, found the path {0}; give a model with --model {0}", argument);
  if (has_model && parse_hub_name(argument))
    return fmt::format("expected an option, found the name {0}; give a model with --model {0}", argument);
  return fmt::format("expected an option, found \"{}\"; {}", argument,
                     advice_for(command, argument, arguments));
}

// Returns the first argument that belongs to neither an option nor a subcommand.
std::optional<std::string> left_over(const CLI::App& app) {
  for (const std::string& argument : app.remaining(true))
    if (argument != "--") return argument;
  return std::nullopt;
}

std::string reason_of(const CLI::App& command, const CLI::ParseError& error) {
  constexpr std::string_view kRequires = " requires ";
  const std::string text = error.what();
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return fmt::format("expected {}, found none; add it", option_in(command, text));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return fmt::format("expected {}, found no value after it; add one", option_in(command, text));
  const std::size_t requires_at = text.find(kRequires);  // "--threads requires --probe"
  if (dynamic_cast<const CLI::RequiresError*>(&error) != nullptr && requires_at != std::string::npos)
    return fmt::format("expected {} with {}, found none; add it",
                       option_in(command, text.substr(requires_at + kRequires.size())),
                       text.substr(0, requires_at));
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr)
    return fmt::format("expected {}, found another kind of value; change it, or leave it out",
                       option_in(command, text));
  return text;
}

}  // namespace

std::vector<std::string> arguments_of(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool has_empty_value = argument.starts_with("--") && argument.size() > 3 &&
                                 argument.find_first_of("= ") == argument.size() - 1;
    arguments.push_back(has_empty_value ? name_of(argument) : argument);
    if (has_empty_value) arguments.emplace_back();
  }
  if (!arguments.empty() && arguments.front() == "version") arguments.front() = "--version";
  if (!arguments.empty() && arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  return arguments;
}

bool is_mistaken_help(const std::vector<std::string>& arguments) {
  return std::ranges::any_of(arguments, [](const std::string& argument) {
    return argument.starts_with("-h") && argument.size() > 2;
  });
}

std::string explain_usage_error(const CLI::App& app, const CLI::ParseError& error,
                                const std::vector<std::string>& arguments) {
  const std::vector<CLI::App*> subcommands = app.get_subcommands();
  const CLI::App& command = subcommands.empty() ? app : *subcommands.back();
  const std::string name = &command == &app ? app.get_name() : app.get_name() + " " + command.get_name();
  const std::optional<std::string> argument = left_over(app);
  const std::string reason =
      argument ? unexpected(app, command, *argument, arguments) : reason_of(command, error);
  return fmt::format("{}: {} (see {} --help)", name, with_flags(reason), name);
}

}  // namespace tp

#include "runtime/gateway/config.h"

#include "model/files/json_text.h"
#include "model/files/parse_number.h"
#include "model/files/printable.h"
#include "model/files/small_file.h"
#include "model/files/strict_json.h"
#include "runtime/http/http_call.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::json;

constexpr const char* kForm =
    R"({"commands": [["mpirun", "-np", "4", "tp-infer", "serve", "--model", "DIR"]]})";
constexpr const char* kModelsForm = R"({"models": [{"name": "llama", "commands": [["mpirun", ...]]}]})";
constexpr std::size_t kMaxModels = 256;
constexpr std::size_t kMaxName = 256;                   // bytes
constexpr double kMaxSeconds = 1e8;                     // three years
constexpr std::size_t kMaxFile = std::size_t{4} << 20;  // bytes
constexpr const char* kOwnOption = "--model-name";

// The member, or null. A copy, like Json::value makes, would recurse once per level.
const Json& member_of(const Json& object, const char* name) {
  static const Json none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

// The type of lists and objects, because dump() recurses once per level.
std::string shown(const Json& json) {
  constexpr std::size_t kMax = 200;
  if (json.is_structured()) return json.type_name();
  return printable(json_text(json).substr(0, kMax));
}

std::vector<std::string> command_of(const Json& json, const std::string& where) {
  std::vector<std::string> command;
  const bool is_list = json.is_array() && !json.empty();
  require<ConfigError>(is_list, "{}: expected each command as a list of texts, as in {}", where, kForm);
  for (const Json& argument : json) {
    const bool fits =
        argument.is_string() && argument.get_ref<const std::string&>().find('\0') == std::string::npos;
    require<ConfigError>(fits, "{}: expected a text as an argument, found {}", where, shown(argument));
    command.push_back(argument.get<std::string>());
  }
  require<ConfigError>(!command.front().empty(), "{}: expected a program's name, found an empty text", where);
  return command;
}

GatewayCommands commands_of(const Json& list, const std::string& where) {
  require<ConfigError>(list.is_array() && !list.empty(),
                       "{}: expected a list of commands in `commands`, as in {}", where, kForm);
  GatewayCommands commands;
  for (const Json& command : list) commands.push_back(command_of(command, where));
  return commands;
}

std::string name_of(const Json& json, const char* member, const std::string& where) {
  const auto* text = json.get_ptr<const std::string*>();
  const bool fits = text != nullptr && !text->empty() && text->size() <= kMaxName &&
                    std::ranges::none_of(*text, [](unsigned char byte) { return std::iscntrl(byte) != 0; });
  require<ConfigError>(fits,
                       "{}: expected a name of 1 to {} bytes without control characters in `{}`, found {}",
                       where, kMaxName, member, shown(json));
  return *text;
}

ModelEntry::Seconds seconds_of(const Json& json, const char* member, const std::string& where) {
  const bool fits = json.is_number() && json.get<double>() >= 0 && json.get<double>() <= kMaxSeconds;
  require<ConfigError>(fits, "{}: expected seconds, 0 to {:.0f}, in `{}`, found {}", where, kMaxSeconds,
                       member, shown(json));
  return ModelEntry::Seconds(json.get<double>());
}

ModelStart start_of(const Json& json, const std::string& where) {
  require<ConfigError>(json == "always" || json == "on_demand",
                       "{}: expected \"always\" or \"on_demand\" in `start`, found {}", where, shown(json));
  return json == "always" ? ModelStart::always : ModelStart::on_demand;
}

// The names in the options --lora NAME=PATH of servers, each once.
std::vector<std::string> adapters_in(const GatewayCommands& commands) {
  constexpr std::string_view kOption = "--lora";
  std::vector<std::string> names;
  for (const std::vector<std::string>& command : commands) {
    const auto serve = std::ranges::find(command, "serve");
    for (auto argument = serve; argument != command.end(); ++argument) {
      std::string_view value = *argument;
      if (!value.starts_with(kOption)) continue;
      value.remove_prefix(kOption.size());
      if (value.starts_with('='))
        value.remove_prefix(1);
      else if (value.empty() && argument + 1 != command.end())
        value = *(argument + 1);
      else
        continue;
      const std::string name(value.substr(0, value.find('=')));
      if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

ModelEntry entry_of(const Json& json, const std::string& where) {
  require<ConfigError>(json.is_object(), "{}: expected each model as an object, as in {}; found {}", where,
                       kModelsForm, shown(json));
  ModelEntry entry{.name = name_of(member_of(json, "name"), "name", where)};
  const std::string here = fmt::format("{}: model `{}`", where, printable(entry.name));
  for (const auto& [member, value] : json.items()) {
    if (member == "aliases") {
      require<ConfigError>(value.is_array(), "{}: expected a list of names in `aliases`, found {}", here,
                           shown(value));
      for (const Json& alias : value) entry.aliases.push_back(name_of(alias, "aliases", here));
    } else if (member == "commands") {
      entry.commands = commands_of(value, here);
    } else if (member == "start") {
      entry.start = start_of(value, here);
    } else if (member == "idle_stop") {
      entry.idle_stop = seconds_of(value, "idle_stop", here);
    } else if (member == "group") {
      entry.group = name_of(value, "group", here);
    } else if (member == "switch_after") {
      entry.switch_after = seconds_of(value, "switch_after", here);
    } else {
      require<ConfigError>(
          member == "name",
          "{}: expected only the members name, aliases, commands, start, idle_stop, group and "
          "switch_after, found `{}`",
          here, printable(member));
    }
  }
  require<ConfigError>(!entry.commands.empty(), "{}: expected a list of commands in `commands`, as in {}",
                       here, kModelsForm);
  entry.adapters = adapters_in(entry.commands);
  require<ConfigError>(entry.start == ModelStart::on_demand || !entry.idle_stop,
                       "{}: expected no `idle_stop` with \"start\": \"always\"; remove one of the two", here);
  return entry;
}

Json parse(std::string_view text, const std::string& where) {
  try {
    return parse_strict_json(text);
  } catch (const JsonError& error) {
    throw_error<ConfigError>("{}: expected a JSON object ({})", where, error.what());
  }
}

// Whether the server starts on this host: the program itself, or mpirun without options that name hosts.
bool runs_here(const std::vector<std::string>& command) {
  static const std::set<std::string> kPrograms = {"tp-infer", "mpirun", "mpiexec"};
  static const std::set<std::string> kOfHosts = {
      "--host",       "-host",         "-H",  "-hosts",     "--hostfile",         "-hostfile",
      "-machinefile", "--machinefile", "-rf", "--rankfile", "--default-hostfile", "-f"};
  const bool names_hosts =
      std::any_of(command.begin(), std::ranges::find(command, "serve"),
                  [](const std::string& word) { return kOfHosts.contains(word.substr(0, word.find('='))); });
  return kPrograms.contains(std::filesystem::path(command.front()).filename()) && !names_hosts;
}

// The last value of the server's option; empty: none.
std::string_view option_of_server(const std::vector<std::string>& command, std::string_view option) {
  std::string_view last;
  for (auto word = std::ranges::find(command, "serve"); word != command.end(); ++word) {
    std::string_view value = *word;
    if (value == option && word + 1 != command.end())
      last = *(word + 1);
    else if (value.starts_with(option) && value.substr(option.size()).starts_with('='))
      last = value.substr(option.size() + 1);
  }
  return last;
}

// Whether the server would listen where the gateway does. Without --host, a server listens at the address
// that reaches the gateway.
bool collides(const std::vector<std::string>& command, const std::string& host, std::uint16_t port) {
  if (port == 0 || parse_number<std::uint16_t>(option_of_server(command, "--port")) != port) return false;
  const std::string own(option_of_server(command, "--host"));
  return (own.empty() || own == host || is_wildcard(own) || is_wildcard(host)) && runs_here(command);
}

// Rules about several models together.
void require_agreement(const GatewayConfig& config, const std::string& where) {
  std::set<std::string> names;
  std::map<std::string, std::string> always;  // by group
  for (const ModelEntry& entry : config) {
    std::vector<std::string> own = entry.aliases;
    own.push_back(entry.name);
    own.insert(own.end(), entry.adapters.begin(), entry.adapters.end());
    for (const std::string& name : own) {
      require<ConfigError>(names.insert(name).second,
                           "{}: expected each name of a model, alias or adapter once, found `{}` twice",
                           where, printable(name));
    }
    if (entry.start != ModelStart::always || entry.group.empty()) continue;
    const auto [other, is_first] = always.emplace(entry.group, entry.name);
    require<ConfigError>(is_first,
                         "{}: expected at most one model with \"start\": \"always\" in the group `{}`, found "
                         "`{}` and `{}`, which cannot run at the same time",
                         where, printable(entry.group), printable(other->second), printable(entry.name));
  }
}

}  // namespace

bool ModelEntry::has_name(std::string_view asked) const {
  return asked == name || std::ranges::find(aliases, asked) != aliases.end() || has_adapter(asked);
}

bool ModelEntry::has_adapter(std::string_view asked) const {
  return std::ranges::find(adapters, asked) != adapters.end();
}

GatewayCommands ModelEntry::named_commands() const {
  GatewayCommands all = commands;
  if (name.empty()) return all;
  std::vector<std::string> names = {name};
  names.insert(names.end(), aliases.begin(), aliases.end());
  for (std::vector<std::string>& command : all) {
    if (std::ranges::find(command, "serve") == command.end()) continue;
    std::set<std::string> known;
    for (std::size_t i = 0; i + 1 < command.size(); ++i) {
      if (command[i] == kOwnOption) known.insert(command[i + 1]);
    }
    for (const std::string& each : names) {
      if (!known.contains(each)) command.insert(command.end(), {kOwnOption, each});
    }
  }
  return all;
}

GatewayConfig config_of(GatewayCommands commands) {
  return {ModelEntry{.commands = std::move(commands), .start = ModelStart::always}};
}

GatewayConfig parse_gateway_config(std::string_view text, const std::string& where) {
  const Json json = parse(text, where);
  require<ConfigError>(json.is_object(), "{}: expected a JSON object, as in {} or {}", where, kForm,
                       kModelsForm);
  for (const auto& [name, value] : json.items()) {
    require<ConfigError>(name == "commands" || name == "models",
                         "{}: expected only the member `models` or `commands`, found `{}`", where,
                         printable(name));
  }
  if (!json.contains("models")) return config_of(commands_of(member_of(json, "commands"), where));
  require<ConfigError>(!json.contains("commands"), "{}: expected `models` or `commands`, found both", where);
  const Json& list = json.at("models");
  require<ConfigError>(list.is_array() && !list.empty() && list.size() <= kMaxModels,
                       "{}: expected a list of 1 to {} models in `models`, as in {}", where, kMaxModels,
                       kModelsForm);
  GatewayConfig config;
  for (const Json& model : list) config.push_back(entry_of(model, where));
  require_agreement(config, where);
  return config;
}

GatewayConfig read_gateway_config(const std::filesystem::path& file) {
  return parse_gateway_config(small_file_text(file, file.string() + " of --config", kMaxFile), file.string());
}

void require_serve(const GatewayConfig& config) {
  const auto is_program = [](const std::string& argument) {
    return std::filesystem::path(argument).filename() == "tp-infer";
  };
  for (const ModelEntry& entry : config) {
    for (const std::vector<std::string>& command : entry.commands) {
      const auto program = std::ranges::find_if(command, is_program);
      require<ConfigError>(
          program == command.end() || std::find(program, command.end(), "serve") != command.end(),
          "expected a command that runs tp-infer serve, found {}; for example: mpirun -np 4 tp-infer serve "
          "--model DIR",
          printable(fmt::format("{}", fmt::join(command, " "))));
    }
  }
}

void require_other_port(const GatewayConfig& config, const std::string& host, std::uint16_t port) {
  for (const ModelEntry& entry : config) {
    for (const std::vector<std::string>& command : entry.commands) {
      require<ConfigError>(
          !collides(command, host, port),
          "expected a server without the gateway's own --port {}, found {}; leave --port out "
          "after serve: the server chooses a free port",
          port, printable(fmt::format("{}", fmt::join(command, " "))));
    }
  }
}

}  // namespace tp

#include "runtime/gateway/config.h"

#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::json;

constexpr const char* kForm =
    R"({"commands": [["mpirun", "-np", "4", "tp-infer", "serve", "--model", "DIR"]]})";

std::vector<std::string> command_of(const Json& json, const std::string& where) {
  std::vector<std::string> command;
  const bool is_list = json.is_array() && !json.empty();
  require<ConfigError>(is_list, "{}: expected each command as a list of texts, as in {}", where, kForm);
  for (const Json& argument : json) {
    const bool fits =
        argument.is_string() && argument.get_ref<const std::string&>().find('\0') == std::string::npos;
    require<ConfigError>(fits, "{}: expected a text as an argument, found {}", where,
                         printable(argument.dump(-1, ' ', false, Json::error_handler_t::replace)));
    command.push_back(argument.get<std::string>());
  }
  require<ConfigError>(!command.front().empty(), "{}: expected a program's name, found an empty text", where);
  return command;
}

}  // namespace

GatewayCommands parse_gateway_config(std::string_view text, const std::string& where) {
  const Json json = Json::parse(text, nullptr, false);
  require<ConfigError>(json.is_object(), "{}: expected a JSON object, as in {}", where, kForm);
  for (const auto& [name, value] : json.items()) {
    require<ConfigError>(name == "commands", "{}: expected only the member `commands`, found `{}`", where,
                         printable(name));
  }
  const Json list = json.value("commands", Json());
  require<ConfigError>(list.is_array() && !list.empty(),
                       "{}: expected a list of commands in `commands`, as in {}", where, kForm);
  GatewayCommands commands;
  for (const Json& command : list) commands.push_back(command_of(command, where));
  return commands;
}

GatewayCommands read_gateway_config(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  require<ConfigError>(stream.is_open(), "cannot read {} of --config: {}", file.string(),
                       std::strerror(errno));
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  return parse_gateway_config(text, file.string());
}

void require_serve(const GatewayCommands& commands) {
  const auto is_program = [](const std::string& argument) {
    return std::filesystem::path(argument).filename() == "tp-infer";
  };
  for (const std::vector<std::string>& command : commands) {
    const auto program = std::ranges::find_if(command, is_program);
    require<ConfigError>(
        program == command.end() || std::find(program, command.end(), "serve") != command.end(),
        "expected a command that runs tp-infer serve, found {}; for example: mpirun -np 4 tp-infer serve "
        "--model DIR",
        printable(fmt::format("{}", fmt::join(command, " "))));
  }
}

}  // namespace tp

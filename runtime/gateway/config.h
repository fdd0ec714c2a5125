// The gateway's configuration file: the commands that start a job.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// Commands with their arguments, in order of preference.
using GatewayCommands = std::vector<std::vector<std::string>>;

// Parses {"commands": [["mpirun", "-np", "4", "tp-infer", "serve"], ...]}. `where`: the file, for errors.
// Throws ConfigError.
GatewayCommands parse_gateway_config(std::string_view text, const std::string& where);
GatewayCommands read_gateway_config(const std::filesystem::path& file);

// Throws ConfigError if a command runs tp-infer with another subcommand than serve. Scripts are not read.
void require_serve(const GatewayCommands& commands);

}  // namespace tp

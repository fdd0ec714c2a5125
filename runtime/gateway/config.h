// The gateway's configuration file: the models, and the commands that start their jobs.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// Commands with their arguments, in order of preference.
using GatewayCommands = std::vector<std::vector<std::string>>;

enum class ModelStart : std::uint8_t { always, on_demand };

// README.md explains the members.
struct ModelEntry {
  using Seconds = std::chrono::duration<double>;

  std::string name{};  // empty: the only model, whatever requests call it
  std::vector<std::string> aliases{};
  // Adapters of the commands (--lora NAME=PATH), whose names requests can use like the model's.
  std::vector<std::string> adapters{};
  GatewayCommands commands{};
  ModelStart start = ModelStart::on_demand;
  std::optional<Seconds> idle_stop{};
  std::string group{};  // empty: none
  Seconds switch_after{60};

  // Whether it is a name, an alias, or an adapter of this model.
  bool has_name(std::string_view asked) const;
  bool has_adapter(std::string_view asked) const;
  // The commands, with an option for each name that they lack.
  GatewayCommands named_commands() const;

  bool operator==(const ModelEntry&) const = default;
};

// Models in order of preference, at least one.
using GatewayConfig = std::vector<ModelEntry>;

// A single model without a name.
GatewayConfig config_of(GatewayCommands commands);

// Parses {"models": [{"name": "llama", "commands": [["mpirun", "-np", "4", "tp-infer", "serve"]]}, ...]}, or
// {"commands": [...]}, which is a single model without a name. `where`: the file, for errors. Throws
// ConfigError.
GatewayConfig parse_gateway_config(std::string_view text, const std::string& where);
GatewayConfig read_gateway_config(const std::filesystem::path& file);

// Throws ConfigError if a command runs tp-infer with another subcommand than serve. Scripts are not read.
void require_serve(const GatewayConfig& config);
// Throws ConfigError if a server on the gateway's host would listen at the gateway's address. `host`, `port`:
// of the gateway; port 0: any free port.
void require_other_port(const GatewayConfig& config, const std::string& host, std::uint16_t port);

}  // namespace tp

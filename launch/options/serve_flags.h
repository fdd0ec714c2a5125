// The options of `tp-infer serve`.
#pragma once

#include "launch/options/access_flags.h"
#include "launch/options/engine_flags.h"
#include "runtime/serve/service.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

struct ServeFlags {
  EngineFlags engine;
  std::string host = "127.0.0.1";
  int port = 8080;
  std::vector<std::string> model_names;
  std::string template_file;
  AccessFlags access;
  int drain_seconds = 30;
  std::optional<int> max_thinking_tokens;
  std::string pid_file;
  std::string announce;
  bool log_json = false;
  bool quiet = false;

  ServeFlags();
  void add_to(CLI::App& command);

  // Returns the server's options. Reads the file of API keys. Throws ConfigError.
  ServeOptions options() const;
  // The URL of the gateway in front of the server; empty if there is none.
  std::string gateway() const;

 private:
  void listen_for_gateway(ServeOptions& options) const;

  const CLI::Option* host_option_ = nullptr;
  const CLI::Option* port_option_ = nullptr;
};

}  // namespace tp

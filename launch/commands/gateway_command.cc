#include "launch/commands/subcommands.h"
#include "launch/common/message.h"
#include "launch/common/open_files.h"
#include "launch/common/option_group.h"
#include "launch/options/access_flags.h"
#include "launch/ranks/on_first_rank.h"
#include "launch/ranks/shutdown_signals.h"
#include "model/files/printable.h"
#include "parallel/machine/launcher.h"
#include "runtime/gateway/config.h"
#include "runtime/gateway/gateway.h"
#include "runtime/gateway/message_output.h"
#include "runtime/http/http_call.h"
#include "runtime/serve/page.h"
#include "tp/internal/require.h"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace tp {
namespace {

constexpr const char* kGatewayFooter =
    "Starts a server, restarts it if it dies or hangs, and finishes the answers that the dead server had\n"
    "begun. Clients get the same texts as without the failure.\n"
    "Examples:\n"
    "  tp-infer gateway -- mpirun -np 4 tp-infer serve --model DIR\n"
    "  tp-infer gateway --config gateway.json --host 0.0.0.0\n"
    "The configuration may have several commands, which are tried in order, for example on fewer hosts:\n"
    "  {\"commands\": [[\"mpirun\", \"-np\", \"4\", \"tp-infer\", \"serve\", \"--model\", \"DIR\"], "
    "[\"mpirun\", ...]]}\n"
    "or several models, which requests start when they need them:\n"
    "  {\"models\": [{\"name\": \"coder\", \"group\": \"node1\", \"commands\": [[\"mpirun\", ...]]}, ...]}\n"
    "SIGHUP: read the configuration and the keys again. SIGTERM, SIGINT, SIGUSR1: finish the running\n"
    "requests and end; a second signal ends at once. Exit status: 0 ended by a signal, 1 error, 2 usage\n"
    "error, also of a server";

constexpr std::size_t kMaxConnections = 4096;
constexpr int kUsageError = 2;

// Prints a message on the gateway's thread, which must not wait for a reader of the log.
void say(const std::string& line) {
  constexpr std::size_t kLongest = 4000;
  write_or_drop(printable(line, kLongest) + "\n");
}

struct GatewayFlags {
  std::string host = "127.0.0.1";
  int port = 8080;
  std::string config{};
  std::vector<std::string> command{};
  AccessFlags access{};
  bool any_bits = false;
  int start_seconds = 1800;
  int hang_seconds = 60;
  int drain_seconds = 60;
  std::size_t keep_bytes = std::size_t{1} << 30;
  std::size_t max_queue = 1024;
  int ping_seconds = 15;
  bool log_json = false;
  bool quiet = false;

  GatewayConfig models() const {
    GatewayConfig models = config.empty() ? config_of({command}) : read_gateway_config(config);
    require_serve(models);
    require_other_port(models, host, static_cast<std::uint16_t>(port));
    return models;
  }

  GatewayOptions options() const {
    GatewayOptions options{.host = host, .port = static_cast<std::uint16_t>(port), .keep_bytes = keep_bytes};
    options.limits.connections = allow_many_connections(kMaxConnections, 2);
    options.access = access.rules();
    options.config = models();
    options.supervisor = {.same_bits = !any_bits,
                          .start_time = std::chrono::seconds(start_seconds),
                          .hang_time = std::chrono::seconds(hang_seconds),
                          .drain_time = std::chrono::seconds(drain_seconds)};
    options.requests = {.max_queue = max_queue, .ping_time = std::chrono::seconds(ping_seconds)};
    options.page = page_response;
    options.log = say;
    options.logs_requests = !quiet;
    options.log_json = log_json;
    return options;
  }
};

// Keys and configuration are reloaded separately, so a mistake in one file doesn't keep the other file from
// taking effect.
void reload(Gateway& gateway, const GatewayFlags& flags) {
  try {
    if (const auto read_keys = flags.access.key_reader()) {
      ApiKeys keys = read_keys();
      say("tp-infer gateway: " + valid_keys_text(keys.size()));
      gateway.set_keys(std::move(keys));
    }
  } catch (const std::exception& error) {
    say(fmt::format("tp-infer gateway: keeps its API keys: {}", error.what()));
  }
  try {
    gateway.reload(flags.models());
  } catch (const std::exception& error) {
    say(fmt::format("tp-infer gateway: keeps its configuration: {}", error.what()));
  }
}

void require_right_use(const GatewayFlags& flags) {
  require<CLI::ValidationError>(
      flags.config.empty() != flags.command.empty(),
      "expected a command after -- or --config FILE, found {}; for example: tp-infer gateway -- "
      "mpirun -np 4 tp-infer serve --model DIR",
      flags.config.empty() ? "neither" : "both");
  const LaunchedRank launched = launched_rank();
  require<CLI::ValidationError>(!launched.by_mpirun && !launched.has_others(),
                                "expected a start without mpirun or srun, found a start by {}; write mpirun "
                                "after --: tp-infer gateway -- "
                                "mpirun -np 4 tp-infer serve --model DIR",
                                launched.launcher);
}

// Returns the exit status.
int run(const GatewayFlags& flags) {
  require_right_use(flags);
  std::signal(SIGPIPE, SIG_IGN);  // a log that nobody reads must not end the gateway
  ShutdownSignals signals({SIGHUP});
  GatewayOptions options;
  try {
    options = flags.options();
  } catch (const ConfigError& error) {
    print_message(fmt::format("tp-infer gateway: {}", error.what()));
    return kUsageError;
  }
  const bool opens_to_all = !options.config.front().name.empty() && !flags.access.needs_key();
  Gateway gateway(std::move(options));
  gateway.when_readable(signals.descriptor(), [&] {
    while (const auto signal = signals.take())
      signal->number == SIGHUP ? reload(gateway, flags) : gateway.end();
    return true;
  });
  print_note(fmt::format("tp-infer gateway: listening at {}/\n", usable_url(flags.host, gateway.port())));
  if (opens_to_all && !is_loopback(flags.host))
    print_message(fmt::format(
        "tp-infer gateway: everyone who can reach --host {} can start models; give clients a key with "
        "--api-key-file",
        flags.host));
  if (flags.any_bits)
    print_message(
        "tp-infer gateway: with --any-bits, an answer that is continued after a restart may differ from an "
        "undisturbed run's");
  const std::string reason = gateway.run();
  if (reason.empty()) return 0;
  print_message(
      fmt::format("tp-infer gateway: no command can start a server: {}; correct the command", reason));
  return kUsageError;
}

}  // namespace

// `tp-infer gateway`: a process in front of a server. It outlives the server.
void add_gateway_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<GatewayFlags>();
  CLI::App* command = app.add_subcommand("gateway", "Run a server, and finish its answers if it dies");
  const OptionGroup options(*command);
  options.add("--host", flags->host, "ADDRESS", not_empty("an address"),
              "Address to listen on; 0.0.0.0 is all addresses of this machine");
  options.add("--port", flags->port, "N", whole_number(0, 65535), "Port to listen on; 0 chooses a free port");
  options.add_file("--config", flags->config,
                   "Commands that start the server, in order of preference, or several models");
  options.add_flag("--any-bits", flags->any_bits, "Don't add --same-bits to the commands");
  options.add("--start-seconds", flags->start_seconds, "SECONDS", whole_number(1, 86400),
              "Longest time until a server is ready; then the next command is tried");
  options.add("--hang-seconds", flags->hang_seconds, "SECONDS", whole_number(1, 86400),
              "Longest step, and longest time without an answer from rank 0; then the server is restarted");
  options.add(
      "--drain-seconds", flags->drain_seconds, "SECONDS", whole_number(0, 86400),
      "Seconds that running requests get to finish before the server ends; passed on to tp-infer serve");
  options.add("--keep-bytes", flags->keep_bytes, "N", whole_number(1),
              "Maximum total size of the requests that the gateway keeps, in bytes");
  options.add("--max-queue", flags->max_queue, "N", whole_number(1),
              "Maximum requests that wait for a model that isn't ready; further ones get status 429");
  options.add("--ping-seconds", flags->ping_seconds, "SECONDS", whole_number(1, 86400),
              "Seconds between two comments to a stream that waits");
  options.add_flag("--log-json", flags->log_json,
                   "Log each request that the gateway refuses as a line of JSON");
  options.add_flag("--quiet", flags->quiet, "Don't log refused requests");
  flags->access.add_to(options);
  options
      .add("COMMAND", flags->command, "", CLI::Validator(), "The command that starts the server, after --")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->footer(kGatewayFooter);
  command->callback(on_first_rank(*command, [flags, &status] { status = run(*flags); }));
}

}  // namespace tp

#include "launch/commands/subcommands.h"
#include "launch/common/message.h"
#include "launch/common/open_files.h"
#include "launch/options/chat_templates.h"
#include "launch/options/model_path.h"
#include "launch/options/serve_flags.h"
#include "launch/ranks/open_engine.h"
#include "launch/ranks/rank_program.h"
#include "launch/ranks/shutdown_signals.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/machine/launcher.h"
#include "runtime/http/http_call.h"
#include "runtime/serve/server.h"
#include "runtime/serve/tokenizer_info.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

namespace tp {
namespace {

using namespace std::chrono_literals;

constexpr const char* kServeFooter =
    "Examples:\n"
    "  tp-infer serve --model DIR\n"
    "  mpirun -np 4 tp-infer serve --model DIR --host 0.0.0.0 --api-key-file keys.txt\n"
    "  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
    "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'\n"
    "Try the page at http://127.0.0.1:8080/. /v1 has OpenAI's API, and Prometheus reads /metrics.\n"
    "To stop the server without losing answers, press Ctrl-C, or send SIGTERM. mpirun ends all ranks\n"
    "within two seconds of either, so with mpirun use kill -USR1 PID-OF-MPIRUN, or kill -TERM with the\n"
    "process id in --pid-file. A second signal stops the server after the current step.\n"
    "Exit status: 0 ended by a signal, 1 error, 2 usage error";

// Times of mpirun. It sends SIGTERM and then kills the ranks: Open MPI 4 after a second, Open MPI 5 after a
// quarter of a second. The server must act earlier.
struct TimesOfMpirun {
  std::chrono::milliseconds until_loss = 300ms;  // without a step: a rank is considered lost
  std::chrono::milliseconds drain = 600ms;
};

TimesOfMpirun times_of_mpirun() {
  const std::optional<Launcher> launcher = find_launcher();
  // With Open MPI 5, prted starts the ranks on other hosts.
  const bool is_open_mpi_5 = launcher && (launcher->name == "prterun" || launcher->name == "prted");
  if (is_open_mpi_5) return {.until_loss = 80ms, .drain = 150ms};
  return {};
}

constexpr const char* kNoChat =
    "this model has no chat template: start the server with --chat-template FILE, or send texts to "
    "/v1/completions";

// A file with the process id, which exists as long as the process.
class PidFile {
 public:
  explicit PidFile(const std::string& file) : file_(file) {
    if (file_.empty()) return;
    std::ofstream stream(file_);
    stream << ::getpid() << std::endl;
    require<ConfigError>(stream.good(), "cannot write {} of --pid-file: {}", file_, std::strerror(errno));
  }
  ~PidFile() { remove(); }
  void remove() const {
    std::error_code ignored;
    if (!file_.empty()) std::filesystem::remove(file_, ignored);
  }
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;

 private:
  std::string file_;
};

ServeOptions options_of(const ServeFlags& flags) {
  ServeOptions options = flags.options();
  options.limits.connections = allow_many_connections(options.limits.connections);
  return options;
}

// Rank 0 sets these up before it opens the engine, so mistakes are reported early.
struct ServePreparation {
  explicit ServePreparation(const ServeFlags& flags) : pid_file(flags.pid_file), server(options_of(flags)) {
    const std::filesystem::path model = find_model(flags.engine.options.model);
    chat_template = flags.template_file.empty() ? ChatTemplate::load(model)
                                                : open_chat_template(flags.template_file, model);
  }

  PidFile pid_file;
  std::optional<ChatTemplate> chat_template;
  std::optional<ShutdownSignals> signals{};  // the server's thread takes them until it ends
  Server server;
};

void reload_keys(Server& server, bool is_asked) {
  try {
    if (const std::optional<std::size_t> count = server.reload_keys(); count && is_asked)
      print_message("tp-infer: " + valid_keys_text(*count));
  } catch (const ConfigError& error) {
    print_message(fmt::format("tp-infer: the server keeps its API keys: {}", error.what()));
  }
}

// The first signal lets requests finish, the second one ends the server, and the third one ends the process.
// SIGHUP reloads the file of keys. Without such a file, SIGHUP ends the process as usual.
void obey_signals(ServePreparation& prepared, std::chrono::milliseconds drain_time, bool has_key_file) {
  ShutdownSignals& signals = has_key_file ? prepared.signals.emplace(std::initializer_list<int>{SIGHUP})
                                          : prepared.signals.emplace();
  Server& server = prepared.server;
  const bool by_mpirun = launched_rank().by_mpirun;
  const TimesOfMpirun times = times_of_mpirun();
  auto count = std::make_shared<int>(0);
  server.when_readable(signals.descriptor(), [&signals, &prepared, &server, drain_time, by_mpirun, times,
                                              count] {
    while (const std::optional<ShutdownSignals::Signal> signal = signals.take()) {
      if (signal->number == SIGHUP) {
        reload_keys(server, true);
        continue;
      }
      const bool job_ends = by_mpirun && signal->sender == ::getppid() && signal->number == SIGTERM;
      if (job_ends) server.suspect_loss(times.until_loss);
      if (++*count == 1) {
        print_message("tp-infer: the server ends when its requests are done; a second signal ends it now");
        server.drain(job_ends ? std::min(drain_time, times.drain) : drain_time);
      } else {
        ShutdownSignals::restore();
        server.leave([&prepared] {
          prepared.pid_file.remove();
          std::_Exit(1);
        });
      }
    }
    return true;
  });
}

void welcome(const ServeFlags& flags, const Server& server, const std::string& name, std::size_t ranks) {
  const std::string url = usable_url(flags.host, server.port());
  print_note(fmt::format("tp-infer: serving {} on {} rank{}\n  page  {}/\n  API   {}/v1\n", name, ranks,
                         ranks == 1 ? "" : "s", url, url));
  if (is_loopback(flags.host) || flags.access.needs_key()) return;
  print_message(
      fmt::format("tp-infer: everyone who can reach --host {} may use this server; give clients a key with "
                  "--api-key-file",
                  flags.host));
}

// Bad embedding files disable only the embedding endpoints.
void add_embedder(const std::filesystem::path& folder, OpenModel& model) {
  try {
    model.embedder.emplace(*model.engine, folder, EmbedOptions{});
  } catch (const Error& error) {
    // Clients don't need to know the model's path.
    model.no_embedder = error.what();
    const std::string place = (folder / "").string();
    for (std::size_t at = 0; (at = model.no_embedder.find(place)) != std::string::npos;)
      model.no_embedder.erase(at, place.size());
  }
}

int serve(Engine& engine, const ServeFlags& flags, ServePreparation& prepared, std::size_t ranks) {
  Server& server = prepared.server;
  obey_signals(prepared, std::chrono::seconds(flags.drain_seconds), !flags.access.api_key_file.empty());
  reload_keys(server, false);
  OpenModel model{.engine = &engine, .chat_error = kNoChat};
  model.defaults.sampling = engine.info().default_sampling;
  if (flags.max_thinking_tokens)
    model.defaults.thinking = ThinkingLimit{.max_tokens = *flags.max_thinking_tokens};
  const std::filesystem::path files = find_model(flags.engine.options.model);
  model.tokenizer_info = tokenizer_info_of(engine, files, prepared.chat_template);
  if (prepared.chat_template && engine.has_tokenizer())
    model.chat.emplace(engine, *std::move(prepared.chat_template));
  if (model.chat) model.chat->require_thinking(flags.max_thinking_tokens.has_value());
  add_embedder(files, model);
  server.run(std::move(model), [&] {
    const auto say_where = [&flags, &server, ranks] { welcome(flags, server, server.model_name(), ranks); };
    if (flags.gateway().empty()) return say_where();
    server.announce(parse_http_url(flags.gateway()), ranks, [say_where](const std::string& error) {
      print_message(fmt::format("tp-infer: cannot announce this server to the gateway: {}", error));
      say_where();
    });
  });
  return 0;
}

int run_serve(const CLI::App& command, const ServeFlags& flags) {
  // Launchers forward signals to every rank, and rank 0 ends the others.
  if (launched_rank().rank != 0) ShutdownSignals::ignore();
  std::signal(SIGPIPE, SIG_IGN);  // a log that nobody reads must not end the server
  // A reload during loading takes effect when the model is ready, because the keys are read again then.
  if (launched_rank().rank == 0 && !flags.access.api_key_file.empty()) std::signal(SIGHUP, SIG_IGN);
  return run_on_ranks(CommandLine::of(command), flags.engine.timeout, [&](Communicator& comm) {
    std::unique_ptr<ServePreparation> prepared;
    fail_together(comm, [&] {
      if (!comm.is_root()) return;
      prepared = std::make_unique<ServePreparation>(flags);
    });
    const std::unique_ptr<Engine> engine = open_engine(comm, flags.engine);
    return lead_or_follow(comm, *engine, flags.engine.verbose,
                          [&] { return serve(*engine, flags, *prepared, comm.size()); });
  });
}

}  // namespace

// `tp-infer serve`: answers requests over HTTP.
void add_serve_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = app.add_subcommand("serve", "Answer requests over HTTP, with OpenAI's API");
  flags->add_to(*command);
  command->footer(kServeFooter);
  command->callback([flags, command, &status] { status = run_serve(*command, *flags); });
}

}  // namespace tp

#include "launch/chat/chat_session.h"
#include "launch/chat/engine_backend.h"
#include "launch/chat/messages_file.h"
#include "launch/chat/server_backend.h"
#include "launch/commands/subcommands.h"
#include "launch/common/console.h"
#include "launch/common/interruptions.h"
#include "launch/common/message.h"
#include "launch/common/option_group.h"
#include "launch/hub/curl_http.h"
#include "launch/options/chat_templates.h"
#include "launch/options/model_path.h"
#include "launch/options/speculate_flag.h"
#include "launch/ranks/distinct_files.h"
#include "launch/ranks/model_task.h"
#include "launch/ranks/open_engine.h"
#include "launch/ranks/rank_program.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/machine/launcher.h"
#include "tp/error.h"
#include "tp/internal/require.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr const char* kChatFooter =
    "Examples:\n"
    "  tp-infer chat --model DIR\n"
    "  mpirun -np 4 tp-infer chat --model DIR --temperature 0.7\n"
    "  tp-infer chat --model DIR --greedy < questions.txt > answers.txt\n"
    "  tp-infer chat --server http://node1:8080 --api-key-file key.txt\n"
    "Each line is a message; /help lists commands (/again, /reset, /set, /save, /load, /exit). Answers go "
    "to\n"
    "standard output. Prompts and notes go there too at a terminal, and to standard error in a script.\n"
    "At a terminal, answers show Markdown, Up and Ctrl-R find earlier lines, several pasted lines are one\n"
    "message, and Alt-Enter starts a new line. Under mpirun, lines cannot be edited, because mpirun "
    "forwards\n"
    "whole lines: use serve under mpirun, and chat --server without it.\n"
    "To stop an answer, press Enter, or Ctrl-C without mpirun. With mpirun, Ctrl-C ends the whole job; send\n"
    "SIGUSR1 instead: kill -USR1 PID-OF-MPIRUN";

constexpr const char* kUnderMpirun =
    "tp-infer: under mpirun each line is a message; to edit lines, run `mpirun ... tp-infer serve` instead "
    "and, without mpirun, `tp-infer chat --server http://127.0.0.1:8080`; Enter stops an answer, Ctrl-C ends "
    "the job";

struct ChatFlags {
  EngineFlags engine;
  SamplingFlags sampling;
  std::string server;  // the server's address; empty: the model runs here
  std::string api_key_file;
  std::string template_file;
  std::string load_file;
  std::string system;
  bool is_plain = false;
};

nlohmann::ordered_json open_conversation(const ChatFlags& flags) {
  if (!flags.load_file.empty()) return read_messages_file(flags.load_file);
  return {{"messages", nlohmann::ordered_json::array()}};
}

// Returns the files that /save must not replace. It may replace the file of --load.
UsedFiles files_to_keep(const CLI::App& command) {
  UsedFiles files = UsedFiles::of(command);
  std::erase_if(files.read, [](const UsedFile& file) { return file.option == "--load"; });
  return files;
}

int converse(ChatBackend& backend, std::string model_name, nlohmann::ordered_json conversation,
             const CLI::App& command, const ChatFlags& flags) {
  const Console console = find_console();
  if (console.is_launchers) print_message(kUnderMpirun, console.notes);
  ChatSession session(backend, std::move(conversation),
                      {.console = console,
                       .model_name = std::move(model_name),
                       .is_plain = flags.is_plain,
                       .reports_speed = flags.engine.verbose,
                       .files = files_to_keep(command)});
  if (!flags.system.empty()) session.set_system(flags.system);
  return session.run();
}

// Rank 0 reads these before it opens the engine, so mistakes are reported early.
struct ChatPreparation {
  ChatTemplate chat_template;
  nlohmann::ordered_json conversation;
};

ChatPreparation prepare(const ChatFlags& flags) {
  const std::filesystem::path model = find_model(flags.engine.options.model);
  require_task(model, Task::generate);  // first, because encoders have no template
  return {open_chat_template(flags.template_file, model), open_conversation(flags)};
}

int run_chat(const CLI::App& command, const ChatFlags& flags) {
  // Launchers forward signals to every rank, but only rank 0 has an answer to stop.
  if (launched_rank().rank != 0) Interruptions::ignore();
  return run_on_ranks(CommandLine::of(command), flags.engine.timeout, [&](Communicator& comm) {
    std::optional<ChatPreparation> prepared;
    fail_together(comm, [&] {
      if (comm.is_root()) prepared.emplace(prepare(flags));
    });
    const std::unique_ptr<Engine> engine = open_engine(comm, flags.engine, Task::generate);
    return lead_or_follow(comm, *engine, flags.engine.verbose, [&] {
      EngineBackend backend(*engine, std::move(prepared->chat_template), flags.sampling);
      return converse(backend, name_of_model(flags.engine.options.model), std::move(prepared->conversation),
                      command, flags);
    });
  });
}

// Returns the key from --api-key-file or OPENAI_API_KEY, or an empty text.
std::string find_api_key(const std::string& file) {
  std::string key;
  if (file.empty()) {
    const char* const variable = std::getenv("OPENAI_API_KEY");
    std::istringstream(variable == nullptr ? "" : variable) >> key;
    return key;
  }
  std::ifstream stream(file);
  require<ConfigError>(stream.is_open(), "cannot read {} of --api-key-file: {}", file, std::strerror(errno));
  stream >> key;
  require<ConfigError>(!key.empty(), "{} of --api-key-file: expected a key, found none", file);
  return key;
}

// Returns the requested model, or the server's first model.
ServedModel find_served_model(ServerClient& client, const std::string& name) {
  if (!name.empty()) return {.name = name};
  return client.models().front();
}

int chat_with_server(const CLI::App& command, const ChatFlags& flags) {
  int status = 0;
  run_on_first_rank(CommandLine::of(command), [&] {
    CurlHttp http(std::chrono::seconds(30));
    ServerClient client(http, flags.server, find_api_key(flags.api_key_file));
    nlohmann::ordered_json conversation = open_conversation(flags);
    const ServedModel model = find_served_model(client, flags.engine.options.model.string());
    ServerBackend backend(client, model, flags.sampling);
    status = converse(backend, model.name, std::move(conversation), command, flags);
  });
  return status;
}

// With a server, options of a local model are errors. Without a server, its key is an error.
void check_server_options(const ChatFlags& flags, const std::vector<const CLI::Option*>& of_model) {
  if (flags.server.empty()) {
    if (!flags.api_key_file.empty())
      throw CLI::ValidationError("expected --server URL with --api-key-file, found none; add it");
    return;
  }
  for (const CLI::Option* option : of_model) {
    if (option->count() == 0) continue;
    throw CLI::ValidationError(fmt::format(
        "expected no {} with --server, because the server has its own settings, found one; remove it",
        option->get_name()));
  }
}

}  // namespace

// `tp-infer chat`: a conversation with a model.
void add_chat_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<ChatFlags>();
  CLI::App* command = app.add_subcommand("chat", "Converse with a model");
  flags->engine.add_to(*command);
  flags->engine.add_causal_options_to(*command);
  flags->engine.add_store_options_to(*command);
  flags->engine.add_unmask_cache_option_to(*command);
  add_speculate_option(*command, flags->engine.options.speculation);
  std::vector<const CLI::Option*> of_model;
  for (const CLI::Option* option : command->get_options()) {
    const std::string name = option->get_name();
    if (name != "--help" && name != "--model" && name != "--verbose") of_model.push_back(option);
  }
  const OptionGroup group(*command, "Conversation");
  group.add_text("--system", flags->system, "System prompt");
  group.add_file("--load", flags->load_file, "Continue a conversation that /save wrote");
  group.add_flag(
      "--plain", flags->is_plain,
      "At a terminal, print answers as the model writes them: don't render Markdown or break lines");
  of_model.push_back(group.add_file("--template", flags->template_file,
                                    "A chat template (Jinja) to use instead of the model's"));
  const OptionGroup server_group(*command, "Chatting with a server");
  server_group.add("--server", flags->server, "URL", not_empty("an address"),
                   "Chat with a model on this server, which has OpenAI's API: http://node1:8080. --model is "
                   "then the model's name there (default: the server's first model)");
  server_group.add_file(
      "--api-key-file", flags->api_key_file,
      "A file with only the key, not the server's NAME:KEY (default: the variable OPENAI_API_KEY)");
  flags->sampling.add_to(*command);
  command->get_option("--max-tokens")
      ->description("Maximum tokens of an answer (default: the model's, or 256; with --server 256)");
  flags->sampling.add_thinking_option_to(*command);
  command->footer(kChatFooter);
  command->callback([flags, command, of_model, &status] {
    check_server_options(*flags, of_model);
    flags->sampling.check();
    status = flags->server.empty() ? run_chat(*command, *flags) : chat_with_server(*command, *flags);
  });
}

}  // namespace tp

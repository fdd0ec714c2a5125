#include "launch/chat_session.h"
#include "launch/chat_templates.h"
#include "launch/console.h"
#include "launch/interruptions.h"
#include "launch/message.h"
#include "launch/messages_file.h"
#include "launch/model_path.h"
#include "launch/open_engine.h"
#include "launch/option_checks.h"
#include "launch/rank_program.h"
#include "launch/subcommand.h"
#include "parallel/fail_together.h"
#include "parallel/mpi_session.h"
#include "tp/error.h"

#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  tp-infer chat --model DIR\n"
    "  mpirun -np 4 tp-infer chat --model DIR --temperature 0.7\n"
    "  tp-infer chat --model DIR --greedy < questions.txt > answers.txt\n"
    "Every line is a message; /help lists commands (/reset, /system, /save, /exit). Answers go to standard\n"
    "output, and so do prompts and notes at a terminal; a script gets them on standard error.\n"
    "At a terminal Up and Ctrl-R find earlier lines, a paste of several lines is one message, and Alt-Enter\n"
    "starts a new line. Not under mpirun, which forwards whole lines.\n"
    "To stop an answer press Enter, or, without mpirun, Ctrl-C. mpirun ends the whole job at Ctrl-C and\n"
    "cannot be configured; it forwards SIGUSR1, which stops an answer, too: kill -USR1 PID-OF-MPIRUN";

constexpr const char* kUnderMpirun =
    "tp-infer: under mpirun every line is a message, and there is no line editing, history or paste of "
    "several lines; Enter alone stops an answer, Ctrl-C ends the job, /help lists commands";

struct ChatFlags {
  EngineFlags engine;
  SamplingFlags sampling;
  std::string template_file;
  std::string load_file;
  std::string system;
};

// What rank 0 reads before the engine is opened, so that mistakes are reported early.
struct Preparation {
  ChatTemplate chat_template;
  nlohmann::ordered_json conversation;
};

Preparation prepare(const ChatFlags& flags) {
  const std::filesystem::path& model = flags.engine.options.model;
  Preparation prepared{open_chat_template(flags.template_file, find_model(model)),
                       {{"messages", nlohmann::ordered_json::array()}}};
  if (!flags.load_file.empty()) prepared.conversation = read_messages_file(flags.load_file);
  return prepared;
}

int run_chat(const CLI::App& command, const ChatFlags& flags) {
  // Launchers forward signals to every rank; only the first one has an answer to stop.
  if (launched_rank().rank != 0) Interruptions::ignore();
  return run_on_ranks(CommandLine::of(command), flags.engine.timeout, [&](Communicator& comm) {
    std::optional<Preparation> prepared;
    fail_together(comm, [&] {
      if (comm.is_root()) prepared.emplace(prepare(flags));
    });
    const std::unique_ptr<Engine> engine = open_engine(comm, flags.engine);
    return lead_or_follow(comm, *engine, flags.engine.verbose, [&] {
      const Console console = find_console();
      if (console.is_launchers) print_message(kUnderMpirun, console.notes);
      ChatSession session(
          *engine, std::move(prepared->chat_template), std::move(prepared->conversation),
          {.sampling = flags.sampling, .console = console, .reports_speed = flags.engine.verbose});
      if (!flags.system.empty()) session.set_system(flags.system);
      return session.run();
    });
  });
}

}  // namespace

// `tp-infer chat`: a conversation with a model.
static void add(CLI::App& app, int& status) {
  auto flags = std::make_shared<ChatFlags>();
  CLI::App* command = app.add_subcommand("chat", "Converse with a model");
  flags->engine.add_to(*command);
  const std::string group = "Conversation";
  command->add_option("--system", flags->system, "System prompt")->type_name("TEXT")->group(group);
  command->add_option("--load", flags->load_file, "Continue a conversation that /save wrote")
      ->check(not_empty("a file"))
      ->type_name("FILE")
      ->group(group);
  command
      ->add_option("--template", flags->template_file,
                   "A chat template (Jinja) to use instead of the model's")
      ->check(not_empty("a file"))
      ->type_name("FILE")
      ->group(group);
  flags->sampling.add_to(*command);
  command->footer(kFooter);
  command->callback([flags, command, &status] {
    flags->sampling.check();
    status = run_chat(*command, *flags);
  });
}

static const Subcommand kRegistered(Subcommand::Place::chat, add);

}  // namespace tp

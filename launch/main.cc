// tp-infer: tensor-parallel inference of language models on CPUs.

#include "launch/commands/generate_command.h"
#include "launch/commands/subcommands.h"
#include "launch/common/help_format.h"
#include "launch/common/launcher_streams.h"
#include "launch/common/message.h"
#include "launch/common/option_names.h"
#include "launch/common/result_output.h"
#include "launch/common/standard_streams.h"
#include "launch/common/version_text.h"
#include "launch/options/usage_error.h"
#include "launch/ranks/rank_program.h"
#include "launch/ranks/uncaught_errors.h"
#include "parallel/machine/available_memory.h"
#include "parallel/machine/error_text.h"
#include "parallel/machine/launcher.h"

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace {

constexpr int kUsageError = 2;

constexpr const char* kOutOfMemory =
    "out of memory: expected sizes that fit into this machine's memory, found larger ones; lower them with "
    "options, check config.json, or free memory";

const char* const kFooter =
    "Without a subcommand the demo model tells a story.\n"
    "Examples:\n"
    "  mpirun -np 2 tp-infer\n"
    "  mpirun -np 4 tp-infer generate --model DIR --prompt \"Once upon a time\"\n"
    "  mpirun -np 4 tp-infer chat --model DIR\n"
    "  tp-infer download ORG/NAME\n"
    "  tp-infer inspect --model DIR --ranks 8\n"
    "Help for a subcommand: tp-infer help generate\n"
    "Exit status: 0 success, 1 error, 2 usage error";

// In the order of --help.
constexpr void (*kSubcommands[])(CLI::App& app, int& status) = {
    tp::add_generate_command, tp::add_chat_command,        tp::add_serve_command,
    tp::add_gateway_command,  tp::add_render_chat_command, tp::add_embed_command,
    tp::add_rank_command,     tp::add_classify_command,    tp::add_fill_mask_command,
    tp::add_logits_command,   tp::add_hidden_command,      tp::add_perplexity_command,
    tp::add_tokenize_command, tp::add_detokenize_command,  tp::add_download_command,
    tp::add_quantize_command, tp::add_inspect_command,     tp::add_plan_command,
    tp::add_bench_command,    tp::add_kv_store_command,
};

void say_what_to_try_next() {
  tp::print_note(
      "\nThat was the demo model that ships with tp-infer. What to try next:\n"
      "  tp-infer generate --prompt \"One rainy morning\" --seed 7     another story\n"
      "  tp-infer chat                                               a conversation with it: ask for a story "
      "about Emma and a white hen\n"
      "  mpirun -np 2 tp-infer generate --model DIR --prompt TEXT    a Hugging Face checkpoint, or a "
      "GGUF file\n"
      "  tp-infer download ORG/NAME                                  a model from the Hugging Face Hub, for "
      "--model "
      "ORG/NAME\n"
      "  mpirun -np 2 tp-infer chat --model DIR                      a conversation with an "
      "instruction model\n"
      "  tp-infer inspect --model DIR --ranks 4                      whether it is supported, what "
      "each rank holds\n"
      "  tp-infer --help                                             everything else\n");
}

// Prints an error that occurred before MPI starts. All ranks meet the same error, and the first rank reports
// it. The others wait, because mpirun ends the job after one failure. A rank that still runs after the wait
// is the only one with the error. srun lets all ranks end by themselves.
void say_once(const std::string& message) {
  const tp::LaunchedRank launched = tp::launched_rank();
  if (launched.rank == 0) {
    tp::print_message(message);
  } else if (launched.by_mpirun) {
    std::this_thread::sleep_for(std::chrono::seconds(5));
    tp::print_message(fmt::format("{} [rank {}/{}]", message, launched.rank, launched.size));
  }
}

// Prints the text of `--help` or `--version`.
void print_help(const CLI::App& app, const CLI::ParseError& wish) {
  const char* const name = wish.get_name() == "CallForVersion" ? "--version" : "--help";
  tp::run_on_first_rank({name, {}}, [&] {
    std::ostringstream text;
    app.exit(wish, text);
    tp::ResultOutput output;
    output.write(text.str());
    output.finish();
  });
}

// The second line names optional libraries that the build did not find.
std::string version_with_lacks() {
  const std::string_view lacks = TP_LACKS;
  return lacks.empty() ? tp::version_text() : fmt::format("{}\nbuilt without {}", tp::version_text(), lacks);
}

// Handles the end of parsing: a request for help, or wrong usage. Returns the exit status.
int report_usage(const CLI::App& app, const CLI::ParseError& error,
                 const std::vector<std::string>& arguments) {
  const bool unknown_command = app.get_subcommands().empty() && !app.remaining().empty();
  if (error.get_exit_code() == 0 && !unknown_command && !tp::is_mistaken_help(arguments)) {
    print_help(app, error);
    return 0;
  }
  say_once(tp::explain_usage_error(app, error, arguments));
  return kUsageError;
}

int run(int argc, char** argv) {
  CLI::App app("Tensor-parallel inference of language models on CPUs over MPI");
  app.name("tp-infer");
  app.formatter(std::make_shared<tp::HelpFormat>(tp::help_columns()));
  app.set_help_all_flag("--help-all", "Print help with all options and exit");
  app.footer(kFooter);
  app.set_version_flag("--version", version_with_lacks());
  app.require_subcommand(0, 1);
  // A repeated option replaces the earlier value. Options that allow several values keep all of them.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  int status = 0;
  for (const auto add_subcommand : kSubcommands) add_subcommand(app, status);
  const std::vector<std::string> arguments = tp::arguments_of(argc, argv);
  tp::remember_flags(app, arguments);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    if (app.get_subcommands().empty()) {
      status = tp::run_demo(app);
      if (status == 0 && tp::launched_rank().rank == 0) say_what_to_try_next();
    }
    return status;
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error, arguments);
  }
}

}  // namespace

int main(int argc, char** argv) {
  tp::open_standard_streams();
  tp::write_past_open_mpi_5();
  tp::share_heap_where_addresses_are_limited();
  try {
    const tp::LaunchedRank launched = tp::launched_rank();
    tp::report_uncaught_errors(static_cast<std::size_t>(launched.rank),
                               static_cast<std::size_t>(launched.size), kOutOfMemory);
    return run(argc, argv);
  } catch (const tp::ReportedError&) {
    return 1;
  } catch (const std::exception& error) {
    say_once(fmt::format("tp-infer: {}",
                         tp::is_out_of_memory(error) ? kOutOfMemory : tp::with_flags(tp::error_text(error))));
    return 1;
  }
}

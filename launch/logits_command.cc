#include "launch/distinct_files.h"
#include "launch/model_path.h"
#include "launch/open_engine.h"
#include "launch/option_checks.h"
#include "launch/progress.h"
#include "launch/prompts.h"
#include "launch/rank_program.h"
#include "launch/subcommand.h"
#include "model/weights/checkpoint/npy.h"
#include "parallel/fail_together.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include <CLI/CLI.hpp>

namespace tp {
namespace {

struct LogitsFlags {
  EngineFlags engine;
  std::string token_file;
  std::string output;
  bool bidirectional = false;
};

// Logits that are not finite: they are written nevertheless, as they help to find the reason.
class UnusableLogits {
 public:
  void look_at(std::size_t position, std::span<const float> row) {
    const auto found = std::ranges::find_if_not(row, [](float logit) { return std::isfinite(logit); });
    if (found == row.end()) return;
    if (positions_++ > 0) return;
    first_ = fmt::format("the first at position {}, token {}: {}", position, found - row.begin(),
                         std::isnan(*found) ? "NaN" : "infinity");
  }

  // Throws RequestError if there are any.
  void refuse(const std::string& path, std::size_t positions) const {
    require<RequestError>(positions_ == 0,
                          "{} is written, but {} of its {} rows have logits that are not finite numbers "
                          "({}); check the checkpoint, "
                          "and try --weights f32 if it is stored as f16",
                          path, positions_, positions, first_);
  }

 private:
  std::size_t positions_ = 0;
  std::string first_;
};

void write_logits(Engine& engine, const std::vector<TokenId>& tokens, const LogitsFlags& flags) {
  const std::string& path = flags.output;
  NpyWriter writer(path, tokens.size(), engine.info().config.vocab_size);
  ProgressBar bar("computing logits");
  // An error of the disk must not leave the step while other ranks are in it.
  std::exception_ptr error;
  UnusableLogits unusable;
  const auto write_row = [&](std::size_t position, std::span<const float> row) {
    unusable.look_at(position, row);
    try {
      if (!error) writer.append(TensorView<const float>(row.data(), 1, row.size()));
    } catch (const Error&) {
      error = std::current_exception();
    }
    bar.update(static_cast<double>(position + 1) / static_cast<double>(tokens.size()));
  };
  engine.logits(tokens, write_row,
                flags.bidirectional ? AttentionMask::bidirectional : AttentionMask::causal);
  if (error) std::rethrow_exception(error);
  writer.finish();
  unusable.refuse(path, tokens.size());
}

int run_logits(const CLI::App& command, const LogitsFlags& flags) {
  return run_on_ranks(CommandLine::of(command), flags.engine.timeout, [&](Communicator& comm) {
    std::vector<TokenId> tokens;
    fail_together(comm, [&] {
      if (!comm.is_root()) return;
      require_distinct_files({{"--output", flags.output}}, {{"--tokens", flags.token_file}},
                             find_model(flags.engine.options.model));
      tokens = read_token_file(flags.token_file);
      require<RequestError>(!tokens.empty(), "{}: no token ids; expected at least one", flags.token_file);
    });
    const std::unique_ptr<Engine> engine = open_engine(comm, flags.engine);
    return lead_or_follow(comm, *engine, flags.engine.verbose, [&] {
      write_logits(*engine, tokens, flags);
      return 0;
    });
  });
}

}  // namespace

// `tp-infer logits`: the logits of every position of a prompt, as an .npy file.
static void add(CLI::App& app, int& status) {
  auto flags = std::make_shared<LogitsFlags>();
  CLI::App* command =
      app.add_subcommand("logits", "Write the logits of every position of a prompt to a file");
  flags->engine.add_to(*command);
  command
      ->add_option("--tokens", flags->token_file,
                   "A JSON file (- is standard input): a list of token ids, or an object with `ids`")
      ->required()
      ->check(not_empty("a file"))
      ->type_name("FILE");
  command->add_option("-o,--output", flags->output, "The .npy file: float32 [tokens, vocab_size]")
      ->required()
      ->check(not_empty("a file"))
      ->type_name("FILE");
  command->add_flag(
      "--bidirectional", flags->bidirectional,
      "Every token attends to the whole prompt, which must fit into one step (--prefill-chunk)");
  command->footer(
      "Row i has the logits for the token after position i. Compare them with another implementation's to\n"
      "check a conversion. Logits that are not finite numbers are written as well; the exit status is 1.\n"
      "Example:\n"
      "  mpirun -np 2 tp-infer logits --model DIR --tokens ids.json --output logits.npy");
  command->callback([flags, command, &status] { status = run_logits(*command, *flags); });
}

static const Subcommand kRegistered(Subcommand::Place::logits, add);

}  // namespace tp

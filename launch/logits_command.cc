#include "launch/logits_command.h"

#include "launch/engine_flags.h"
#include "launch/progress.h"
#include "launch/prompts.h"
#include "launch/rank_program.h"
#include "model/checkpoint/npy.h"
#include "parallel/fail_together.h"
#include "tp/error.h"

#include <exception>

namespace tp {
namespace {

struct LogitsFlags {
  EngineFlags engine;
  std::string token_file;
  std::string output;
};

void write_logits(Engine& engine, const std::vector<TokenId>& tokens, const std::string& path) {
  NpyWriter writer(path, tokens.size(), engine.info().config.vocab_size);
  ProgressBar bar("computing logits");
  // An error of the disk must not leave the step while other ranks are in it.
  std::exception_ptr error;
  engine.logits(tokens, [&](std::size_t position, std::span<const float> row) {
    try {
      if (!error) writer.append(TensorView<const float>(row.data(), 1, row.size()));
    } catch (const Error&) {
      error = std::current_exception();
    }
    bar.update(static_cast<double>(position + 1) / static_cast<double>(tokens.size()));
  });
  if (error) std::rethrow_exception(error);
  writer.finish();
}

int run_logits(const LogitsFlags& flags) {
  return run_on_ranks([&](Communicator& comm) {
    std::vector<TokenId> tokens;
    fail_together(comm, [&] {
      if (!comm.is_root()) return;
      tokens = read_token_file(flags.token_file);
      require<RequestError>(!tokens.empty(), "{}: no token ids; expected at least one", flags.token_file);
    });
    const std::unique_ptr<Engine> engine = open_engine(comm, flags.engine);
    return lead_or_follow(comm, *engine, [&] {
      write_logits(*engine, tokens, flags.output);
      return 0;
    });
  });
}

}  // namespace

void add_logits_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<LogitsFlags>();
  CLI::App* command =
      app.add_subcommand("logits", "Write the logits of every position of a prompt to a file");
  flags->engine.add_to(*command);
  command
      ->add_option("--tokens", flags->token_file,
                   "A JSON file (- is standard input): a list of token ids, or an object with `ids`")
      ->required()
      ->type_name("FILE");
  command->add_option("-o,--output", flags->output, "The .npy file: float32 [tokens, vocab_size]")
      ->required()
      ->type_name("FILE");
  command->footer(
      "Row i are the logits for the token after position i. Compare them with another implementation's to\n"
      "check a conversion.\n"
      "Example:\n"
      "  mpirun -np 2 tp-infer logits --model DIR --tokens ids.json --output logits.npy");
  command->callback([flags, &status] { status = run_logits(*flags); });
}

}  // namespace tp

#include "launch/commands/subcommands.h"
#include "launch/common/option_group.h"
#include "launch/common/progress.h"
#include "launch/generate/sequence_batch.h"
#include "launch/options/text_inputs.h"
#include "launch/ranks/engine_command.h"
#include "model/files/npy.h"
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

// Logits that are not finite. They are written anyway, because they help to find the reason.
class UnusableLogits {
 public:
  void look_at(std::size_t position, std::span<const float> row) {
    const auto found = std::ranges::find_if_not(row, [](float logit) { return std::isfinite(logit); });
    if (found == row.end()) return;
    if (positions_++ > 0) return;
    first_ = fmt::format("the first at position {}, token {}: {}", position, found - row.begin(),
                         std::isnan(*found) ? "NaN" : "infinity");
  }

  // Throws RequestError if any logits are not finite.
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

// Writes a classifier's scores of the sequence: [1, labels].
void write_scores(Engine& engine, const Request& input, const LogitsFlags& flags) {
  const std::vector<float> scores =
      label_scores(engine, {{input, flags.token_file}}, "computing logits").front();
  NpyWriter writer(flags.output, 1, scores.size());
  writer.append(TensorView<const float>(scores.data(), 1, scores.size()));
  writer.finish();
}

// Writes the logits of all tokens, or of the decoder's tokens: [tokens, vocab_size].
void write_logits(Engine& engine, const Request& input, const LogitsFlags& flags) {
  const std::string& path = flags.output;
  const bool is_seq2seq = engine.info().kind == ModelKind::seq2seq;
  // Without ids, the decoder begins with the model's start token.
  const std::size_t rows =
      is_seq2seq ? std::max<std::size_t>(input.decoder_prompt.size(), 1) : input.prompt.size();
  NpyWriter writer(path, rows, engine.info().config.vocab_size);
  ProgressBar bar("computing logits");
  // A disk error must not leave the step while other ranks compute it.
  std::exception_ptr error;
  UnusableLogits unusable;
  const auto write_row = [&](std::size_t position, std::span<const float> row) {
    unusable.look_at(position, row);
    try {
      if (!error) writer.append(TensorView<const float>(row.data(), 1, row.size()));
    } catch (const Error&) {
      error = std::current_exception();
    }
    bar.update(static_cast<double>(position + 1) / static_cast<double>(rows));
  };
  Request request = input;
  request.prompt_logits = true;
  request.bidirectional = flags.bidirectional;
  engine.run(std::move(request), [&](const Event& event) {
    const auto* rows = std::get_if<PromptLogits>(&event);
    for (std::size_t i = 0; rows != nullptr && i < rows->positions(); ++i)
      write_row(rows->first + i, rows->row(i));
  });
  if (error) std::rethrow_exception(error);
  writer.finish();
  unusable.refuse(path, rows);
}

int run_logits(const CLI::App& command, const LogitsFlags& flags) {
  Request input;
  const auto prepare = [&] { input = read_input_file(flags.token_file); };
  const auto compute = [&](Engine& engine) {
    const bool of_sequence = engine.info().kind == ModelKind::classifier;
    (of_sequence ? write_scores : write_logits)(engine, input, flags);
  };
  return run_engine_command(command, flags.engine, Task::logits, prepare, compute);
}

}  // namespace

// `tp-infer logits`: the logits of every position of a prompt, as an .npy file.
void add_logits_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<LogitsFlags>();
  CLI::App* command =
      app.add_subcommand("logits", "Write the logits of every position of a prompt to a file");
  const OptionGroup options(*command);
  flags->engine.add_to(*command);
  flags->engine.add_causal_options_to(*command);
  CLI::Option* const tokens = add_token_file_option(*command, flags->token_file)->required();
  tokens->description(tokens->get_description() + ", or for encoder-decoders `decoder_ids`");
  options.add_file("-o,--output", flags->output, "The .npy file: float32 [tokens, vocab_size]")->required();
  command->add_flag(
      "--bidirectional", flags->bidirectional,
      "Let every token attend to the whole prompt, which must fit into one step (--prefill-chunk)");
  command->footer(
      "Row i has the logits for the token after position i; for a masked language model, the token at "
      "position i.\n"
      "A classifier's file has one row, with a logit for each label. An encoder-decoder's rows belong to\n"
      "`decoder_ids`. Compare them with another implementation's to check a conversion. If a logit is not a\n"
      "finite number, the file is still written, and the exit status is 1.\n"
      "Example:\n"
      "  mpirun -np 2 tp-infer logits --model DIR --tokens ids.json --output logits.npy");
  command->callback([flags, command, &status] { status = run_logits(*command, *flags); });
}

}  // namespace tp

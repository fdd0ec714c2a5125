#include "launch/commands/subcommands.h"
#include "launch/common/option_group.h"
#include "launch/generate/sequence_batch.h"
#include "launch/options/text_inputs.h"
#include "launch/ranks/engine_command.h"
#include "model/files/npy.h"

#include <CLI/CLI.hpp>

namespace tp {
namespace {

struct HiddenFlags {
  EngineFlags engine;
  std::string token_file;
  std::string output;
};

void write_hidden_states(Engine& engine, Request request, const HiddenFlags& flags) {
  NpyWriter writer(flags.output, request.prompt.size(), engine.info().state_size);
  request.prompt_hidden = true;
  run_sequences(
      engine, {{std::move(request), flags.token_file}}, "computing hidden states",
      [&](std::size_t, const Event& event) {
        if (const auto* rows = std::get_if<PromptHidden>(&event))
          writer.append(TensorView<const float>(rows->states.data(), rows->positions(), rows->hidden_size));
      });
  writer.finish();
}

int run_hidden(const CLI::App& command, const HiddenFlags& flags) {
  Request input;
  const auto prepare = [&] { input = read_input_file(flags.token_file); };
  const auto compute = [&](Engine& engine) { write_hidden_states(engine, input, flags); };
  return run_engine_command(command, flags.engine, Task::hidden, prepare, compute);
}

}  // namespace

// `tp-infer hidden`: the last hidden state of every token.
void add_hidden_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<HiddenFlags>();
  CLI::App* command = app.add_subcommand("hidden", "Write the last hidden state of every token to a file");
  const OptionGroup options(*command);
  flags->engine.add_to(*command);
  flags->engine.add_causal_options_to(*command);
  add_token_file_option(*command, flags->token_file)->required();
  options.add_file("-o,--output", flags->output, "The .npy file: float32 [tokens, hidden_size]")->required();
  command->footer(
      "The states after the final norm of any model; for an encoder-decoder, those of its encoder.\n"
      "Example:\n"
      "  mpirun -np 2 tp-infer hidden --model DIR --tokens ids.json --output hidden.npy");
  command->callback([flags, command, &status] { status = run_hidden(*command, *flags); });
}

}  // namespace tp

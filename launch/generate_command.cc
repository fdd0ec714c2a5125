#include "launch/generate_command.h"

#include "launch/batch_fields.h"
#include "launch/engine_flags.h"
#include "launch/generate_output.h"
#include "launch/piped_text.h"
#include "launch/prompts.h"
#include "launch/rank_program.h"
#include "launch/result_output.h"
#include "launch/sampling_flags.h"
#include "launch/trace_file.h"
#include "parallel/collectives.h"
#include "parallel/fail_together.h"
#include "parallel/mpi_session.h"
#include "parallel/stopwatch.h"
#include "tp/error.h"

#include <new>
#include <optional>

namespace tp {
namespace {

constexpr const char* kDemoPrompt = "Once upon a time";

struct GenerateFlags {
  EngineFlags engine;
  SamplingFlags sampling;
  std::vector<std::string> prompts;
  std::string prompt_file;
  std::string token_file;
  std::string batch_file;
  bool json = false;
  bool no_echo = false;
  std::string output;
  std::string trace;
};

// Rank 0 only. Throws RequestError.
std::vector<Prompt> read_prompts(const GenerateFlags& flags) {
  if (!flags.batch_file.empty()) return read_batch(flags.batch_file);
  std::vector<Prompt> prompts;
  for (const std::string& text : flags.prompts) prompts.push_back({.text = text});
  if (!flags.prompt_file.empty()) prompts.push_back(read_prompt_file(flags.prompt_file));
  if (!flags.token_file.empty()) prompts.push_back({.text = "", .ids = read_token_file(flags.token_file)});
  return prompts;
}

Request make_request(const GenerateFlags& flags, const Prompt& prompt, const Engine& engine) {
  require<RequestError>(prompt.error.empty(), "{}", prompt.error);
  Request request = flags.sampling.make_request(engine.info().default_sampling);
  set_fields(prompt.fields, request);
  // The output names the seed, so that whatever was drawn can be drawn again.
  if (!request.sampling.seed && !request.sampling.greedy()) request.sampling.seed = draw_seed();
  request.prompt = prompt.ids ? *prompt.ids : engine.encode(prompt.text);
  return request;
}

void submit_all(Engine& engine, const GenerateFlags& flags, const std::vector<Prompt>& prompts,
                GenerateOutput& output) {
  for (const Prompt& prompt : prompts) {
    try {
      Request request = make_request(flags, prompt, engine);
      output.expect(engine.submit(request), prompt, request);
    } catch (const RequestError& error) {
      output.fail(prompt, error.what());
    } catch (const std::bad_alloc&) {
      output.fail(prompt, "out of memory for the prompt's tokens; shorten it");
    }
  }
}

void report_speed(std::size_t tokens, double seconds) {
  fmt::print(stderr, "{} tokens generated in {:.2f} s, {:.1f} tokens/s over all sequences\n", tokens, seconds,
             static_cast<double>(tokens) / seconds);
}

// Rank 0: continues all prompts. Returns the exit status.
int generate(Engine& engine, const GenerateFlags& flags, const std::vector<Prompt>& prompts,
             const TraceFile& trace, ResultOutput& file) {
  GenerateOutput output(file, {.json = flags.json,
                               .echo = !flags.no_echo,
                               .has_text = engine.has_tokenizer(),
                               .load_seconds = engine.info().load_seconds});
  trace.begin(engine);
  engine.reset_statistics();
  const Stopwatch watch;
  submit_all(engine, flags, prompts, output);
  while (engine.has_work()) {
    const std::vector<TokenEvent> events = engine.step();
    output.set_now(watch.seconds());
    if (flags.json && output.begins_or_ends(events)) output.set_time(mean_time(engine.reports()));
    for (const TokenEvent& event : events) output.add(event);
  }
  file.finish();
  trace.finish(engine);
  if (flags.engine.verbose) report_speed(output.generated_tokens(), watch.seconds());
  output.report_failures();
  return output.failed_requests() != 0 ? 1 : 0;
}

// Wrong usage that only rank 0 sees, as it alone has read standard input. Returns the exit status.
int refuse_nothing(const Communicator& comm) {
  if (comm.is_root()) {
    fmt::print(
        stderr,
        "tp-infer generate: nothing to continue; give --prompt TEXT, --prompt-file, --tokens or --batch, "
        "or a text through a pipe (see tp-infer generate --help)\n");
  }
  return 2;
}

int run_generate(const GenerateFlags& flags) {
  return run_on_ranks([&](Communicator& comm) {
    std::vector<Prompt> prompts;
    std::optional<TraceFile> trace;
    std::optional<ResultOutput> output;
    fail_together(comm, [&] {
      if (!comm.is_root()) return;
      prompts = read_prompts(flags);
      trace.emplace(flags.trace);
      for (const std::string& input : {flags.batch_file, flags.prompt_file, flags.token_file})
        require_other_file(input, flags.output);
      output.emplace(flags.output);
    });
    if (max_over_ranks(comm, static_cast<std::int64_t>(prompts.size())) == 0) return refuse_nothing(comm);
    const std::unique_ptr<Engine> engine = open_engine(comm, flags.engine);
    return lead_or_follow(comm, *engine, [&] { return generate(*engine, flags, prompts, *trace, *output); });
  });
}

bool has_prompt(const GenerateFlags& flags) {
  return !flags.prompts.empty() || !flags.prompt_file.empty() || !flags.token_file.empty();
}

// Without a prompt a text from a pipe is one, and the demo model has a favourite beginning. Rank 0.
void find_prompt(GenerateFlags& flags) {
  if (has_prompt(flags) || !flags.batch_file.empty()) return;
  if (const std::optional<std::string> text = read_piped_text()) flags.prompts = {*text};
  if (flags.prompts.empty() && flags.engine.options.model.empty()) flags.prompts = {kDemoPrompt};
}

// Throws CLI::ValidationError for options that contradict each other.
void check_flags(const GenerateFlags& flags) {
  const auto check = [](bool condition, const char* message) {
    if (!condition) throw CLI::ValidationError(message);
  };
  const bool has_batch = !flags.batch_file.empty();
  check(
      !has_prompt(flags) || !has_batch,
      "a --batch has all prompts in its lines; give it alone, without --prompt, --prompt-file and --tokens");
  check(flags.prompt_file != "-" || flags.token_file != "-",
        "--prompt-file and --tokens cannot both be standard input; give one of them a file");
  check(!flags.sampling.logprobs || flags.json,
        "--logprobs are part of the JSON output only; give --json too");
  flags.sampling.check();
}

void add_prompt_options(CLI::App& command, GenerateFlags& flags) {
  const std::string group = "Prompts (FILE may be - for standard input)";
  command.add_option("-p,--prompt", flags.prompts, "A text to continue; may be given several times")
      ->allow_extra_args(false)
      ->type_name("TEXT")
      ->group(group);
  command.add_option("--prompt-file", flags.prompt_file, "A file that is one prompt")
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--tokens", flags.token_file, "A JSON file: a list of token ids, or an object with `ids`")
      ->type_name("FILE")
      ->group(group);
  command.add_option("--batch", flags.batch_file, "A request on every line, as JSON; implies --json")
      ->type_name("FILE")
      ->group(group);
}

}  // namespace

void add_generate_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = app.add_subcommand("generate", "Continue prompts");
  flags->engine.add_to(*command);
  command->add_flag("--json", flags->json, "One JSON object a line for every continuation");
  command->add_flag("--no-echo", flags->no_echo, "Print continuations without their prompts");
  add_output_option(*command, flags->output);
  add_trace_option(*command, flags->trace);
  add_prompt_options(*command, *flags);
  flags->sampling.add_to(*command);
  flags->sampling.add_result_options_to(*command);
  command->footer(
      "Without a prompt the text that comes through a pipe is continued, apart from its last newline.\n"
      "Examples:\n"
      "  mpirun -np 4 tp-infer generate --model DIR --prompt \"Once upon a time\"\n"
      "  mpirun -np 2 tp-infer generate --model DIR --prompt Hello --n 3 --temperature 0.8 --seed 7\n"
      "  echo \"Once upon a time\" | tp-infer generate --model DIR\n"
      "  tp-infer generate --model DIR --batch requests.jsonl --output continuations.jsonl\n"
      "A line of a batch has `prompt` (a text) or `ids` (token ids), and perhaps `id` (any name of yours,\n"
      "repeated in the output) and settings of its own that win over the flags:\n"
      "  {\"prompt\": \"Hello\", \"max_tokens\": 20, \"temperature\": 0.7, \"stop\": [\"\\n\"]}\n"
      "A request that cannot be served does not stop the others; its line of output has an `error`.\n"
      "Exit status: 0 done, 1 an error (also of a single request), 2 wrong usage");
  command->callback([flags, &status] {
    flags->json = flags->json || !flags->batch_file.empty();
    check_flags(*flags);
    if (launched_rank().rank == 0) find_prompt(*flags);
    status = run_generate(*flags);
  });
}

int run_demo() {
  GenerateFlags flags;
  flags.prompts = {kDemoPrompt};
  return run_generate(flags);
}

}  // namespace tp

#include "launch/commands/generate_command.h"

#include "launch/commands/subcommands.h"
#include "launch/common/message.h"
#include "launch/common/option_group.h"
#include "launch/common/result_output.h"
#include "launch/common/trace_file.h"
#include "launch/generate/earlier_results.h"
#include "launch/generate/generate_output.h"
#include "launch/generate/generate_run.h"
#include "launch/generate/piped_text.h"
#include "launch/generate/request_source.h"
#include "launch/options/chat_templates.h"
#include "launch/options/constraint_flags.h"
#include "launch/options/model_path.h"
#include "launch/options/prompts.h"
#include "launch/options/sampling_flags.h"
#include "launch/options/speculate_flag.h"
#include "launch/options/unmasking_flags.h"
#include "launch/ranks/open_engine.h"
#include "launch/ranks/rank_program.h"
#include "model/files/parse_number.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/machine/launcher.h"
#include "tp/internal/require.h"

#include <optional>

namespace tp {
namespace {

constexpr const char* kDemoPrompt = "Once upon a time";

struct GenerateFlags {
  EngineFlags engine;
  SamplingFlags sampling;
  ConstraintFlags constraint;
  UnmaskingFlags unmasking;
  std::vector<std::string> prompts;
  std::string prompt_file;
  std::string token_file;
  std::string batch_file;
  std::string template_file;
  std::string forced_bos;
  bool json = false;
  bool no_echo = false;
  std::string output;
  bool resume = false;
  std::string trace;
};

std::vector<BatchText> read_prompts(const GenerateFlags& flags) {
  std::vector<BatchText> prompts;
  for (const std::string& text : flags.prompts) prompts.push_back({.text = text});
  if (!flags.prompt_file.empty()) prompts.push_back({.text = read_prompt_file(flags.prompt_file)});
  if (!flags.token_file.empty()) prompts.push_back({.tokens = read_input_file(flags.token_file)});
  return prompts;
}

// Returns the number of a batch's requests, see count_requests. Throws RequestError if --resume can't
// distinguish them.
std::size_t check_batch(const GenerateFlags& flags) {
  if (!flags.resume) return count_requests(flags.batch_file);
  DistinctIds ids;
  return count_requests(flags.batch_file, [&](const ApiRequest& request) {
    try {
      if (request.error.empty()) ids.add(request.facts.id);
    } catch (const RequestError& error) {
      throw_error<RequestError>("{}: {}", request.facts.where, error.what());
    }
  });
}

// Rank 0 reads these before it opens the engine, so mistakes are reported early.
struct GeneratePreparation {
  std::vector<BatchText> prompts;
  std::size_t known_requests = 0;  // prompts, or lines of a batch; 0: more may come
  std::optional<Constraint> constraint;
  std::optional<EarlierResults> earlier;
  std::optional<TraceFile> trace;
  std::optional<ResultOutput> output;
};

void prepare(const GenerateFlags& flags, GeneratePreparation& prepared) {
  if (flags.batch_file.empty()) {
    prepared.prompts = read_prompts(flags);
    prepared.known_requests = prepared.prompts.size();
    if (prepared.prompts.empty()) return;  // see refuse_nothing
  } else {
    prepared.known_requests = check_batch(flags);
  }
  const std::filesystem::path model = find_model(flags.engine.options.model);
  flags.unmasking.require_fit(model);
  if (!flags.template_file.empty()) open_chat_template(flags.template_file, model);
  prepared.constraint = flags.constraint.read();
  if (flags.resume) require_resumable(flags.output);
  using Existing = ResultOutput::Existing;
  prepared.output.emplace(flags.output, flags.resume ? Existing::append : Existing::replace);
  prepared.trace.emplace(flags.trace);
  if (flags.resume) {
    prepared.earlier.emplace(flags.output);
    print_note(fmt::format("tp-infer: {} has the results of {} requests\n", flags.output,
                           prepared.earlier->requests()));
  }
}

void report_speed(std::size_t tokens, double seconds) {
  print_note(fmt::format("{} tokens generated in {:.2f} s, {:.1f} tokens/s over all sequences\n", tokens,
                         seconds, static_cast<double>(tokens) / seconds));
}

void report_prompts(const GenerateOutput::PromptTokens& tokens, bool has_store) {
  std::string text =
      fmt::format("{} prompt tokens, of which {} came from the cache", tokens.all, tokens.cached);
  if (has_store) text += fmt::format("; {} of them were read from the store of prompts", tokens.restored);
  print_note(text + "\n");
}

// Returns the id of a token in the vocabulary, such as "fr_XX", or of a number.
TokenId token_named(const Engine& engine, const std::string& text) {
  if (const std::optional<TokenId> known = engine.find_token(text)) return *known;
  const auto id = parse_number<TokenId>(text);
  require<RequestError>(id.has_value(),
                        "--forced-bos: expected a token of the vocabulary or an id, found \"{}\"; see "
                        "tokenizer.json",
                        text);
  return *id;
}

// Continues all prompts on rank 0. Returns the exit status.
int generate(Engine& engine, const GenerateFlags& flags, GeneratePreparation& prepared) {
  const std::filesystem::path model = find_model(flags.engine.options.model);
  GenerateOutput output(*prepared.output, engine,
                        {.json = flags.json,
                         .unmasked = flags.json && flags.batch_file.empty(),
                         .headings = prepared.prompts.size() > 1 || flags.sampling.n > 1,
                         .model = (model / "").parent_path().filename().string()});
  Request defaults =
      flags.sampling.make_request(engine.info().default_sampling, engine.info().generation.beams);
  defaults.constraint = prepared.constraint;
  flags.unmasking.apply(defaults);
  if (!flags.forced_bos.empty()) defaults.forced_first = token_named(engine, flags.forced_bos);
  GenerateRun run(engine, output,
                  {.defaults = std::move(defaults),
                   .prompts = std::move(prepared.prompts),
                   .batch_file = flags.batch_file,
                   .echoes = !flags.no_echo && engine.info().kind != ModelKind::seq2seq,
                   .model = model,
                   .template_file = flags.template_file,
                   .earlier = prepared.earlier ? &*prepared.earlier : nullptr,
                   // The engine gets twice the requests that can run, so no step lacks sequences.
                   .max_at_once = 2 * flags.engine.options.max_sequences,
                   .reports_times = flags.json,
                   // A reader of a pipe may show texts on the same terminal.
                   .shows_progress = !prepared.output->is_terminal() &&
                                     (!flags.batch_file.empty() || !flags.output.empty()),
                   .requests = prepared.known_requests});
  prepared.trace->begin(engine);
  run.run();
  prepared.output->finish();
  prepared.trace->finish(engine);
  if (flags.engine.verbose) {
    report_speed(output.generated_tokens(), run.seconds());
    report_prompts(output.prompt_tokens(), engine.status().store.is_open);
  }
  if (flags.engine.verbose && flags.engine.options.speculation.drafts != DraftKind::none)
    print_note(describe_drafts(engine.status().speculation));
  output.report_failures();
  return output.failed_requests() != 0 ? 1 : 0;
}

// Reports a missing prompt. Only rank 0 knows this, because it alone has read standard input. Returns the
// exit status.
int refuse_nothing(const Communicator& comm) {
  if (comm.is_root()) {
    print_message(
        "tp-infer generate: nothing to continue; give --prompt TEXT, --prompt-file, --tokens or --batch, "
        "or a text through a pipe (see tp-infer generate --help)");
  }
  return 2;
}

int run_generate(const CLI::App& command, const GenerateFlags& flags) {
  return run_on_ranks(CommandLine::of(command), flags.engine.timeout, [&](Communicator& comm) {
    GeneratePreparation prepared;
    fail_together(comm, [&] {
      if (comm.is_root()) prepare(flags, prepared);
    });
    const auto prompts = static_cast<std::int64_t>(prepared.prompts.size());
    if (flags.batch_file.empty() && max_over_ranks(comm, prompts) == 0) return refuse_nothing(comm);
    const std::unique_ptr<Engine> engine = open_engine(comm, flags.engine, Task::generate);
    return lead_or_follow(comm, *engine, flags.engine.verbose,
                          [&] { return generate(*engine, flags, prepared); });
  });
}

bool has_prompt(const GenerateFlags& flags) {
  return !flags.prompts.empty() || !flags.prompt_file.empty() || !flags.token_file.empty();
}

// Sets the prompt on rank 0: without --prompt, text from a pipe, or the demo model's default.
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
  const bool has_file = !flags.output.empty() && flags.output != "-";
  check(!flags.resume || (has_batch && has_file),
        "--resume continues the results of a batch; give it with --batch and --output");
  check(flags.template_file.empty() || has_batch,
        "--template is for the conversations of a batch; give it with --batch, or render a prompt with "
        "render-chat");
  check(flags.prompt_file != "-" || flags.token_file != "-",
        "--prompt-file and --tokens cannot both be standard input; give one of them a file");
  check(!flags.sampling.logprobs || flags.json,
        "--logprobs are part of the JSON output only; give --json too");
  flags.sampling.check();
  flags.constraint.check();
  flags.unmasking.check();
}

void add_prompt_options(CLI::App& command, GenerateFlags& flags) {
  const OptionGroup group(command, "Prompts (FILE may be - for standard input)");
  group.add_text("-p,--prompt", flags.prompts, "A text to continue; may be given several times")
      ->allow_extra_args(false);
  group.add_file("--prompt-file", flags.prompt_file, "A file that contains one prompt");
  group.add_file("--tokens", flags.token_file,
                 "A JSON file: a list of token ids, or an object with `ids` and, for encoder-decoders, "
                 "optionally `decoder_ids`");
  group.add_file("--batch", flags.batch_file,
                 "A file with one JSON request per line; implies --json. With -, requests are answered as "
                 "they arrive");
  group.add_file("--template", flags.template_file,
                 "With --batch: a chat template (Jinja) to use instead of the model's");
}

}  // namespace

// `tp-infer generate`: continues prompts.
void add_generate_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = app.add_subcommand("generate", "Continue prompts");
  const OptionGroup options(*command);
  flags->engine.add_to(*command);
  flags->engine.add_causal_options_to(*command);
  flags->engine.add_store_options_to(*command);
  flags->engine.add_batch_option_to(*command);
  flags->engine.add_unmask_cache_option_to(*command);
  command->add_flag("--json", flags->json, "One JSON object per continuation");
  command->add_flag("--no-echo", flags->no_echo, "Print continuations without their prompts");
  add_output_option(*command, flags->output);
  command->add_flag("--resume", flags->resume,
                    "With --batch: append results for the `id`s that --output lacks; errors are retried");
  add_trace_option(*command, flags->trace);
  options.add("--forced-bos", flags->forced_bos, "TOKEN", not_empty("a token"),
              "First token of continuations, such as a language's token (default: the model's "
              "forced_bos_token_id)");
  add_prompt_options(*command, *flags);
  add_speculate_option(*command, flags->engine.options.speculation);
  flags->sampling.add_to(*command);
  flags->sampling.add_result_options_to(*command);
  flags->constraint.add_to(*command);
  flags->unmasking.add_to(*command);
  command->footer(
      "An encoder-decoder's encoder reads the prompt, which is not echoed.\n"
      "Without a prompt, `generate` continues text from a pipe, without its final newline.\n"
      "Examples:\n"
      "  mpirun -np 4 tp-infer generate --model DIR --prompt \"Once upon a time\"\n"
      "  mpirun -np 2 tp-infer generate --model DIR --prompt Hello --n 3 --temperature 0.8 --seed 7\n"
      "  echo \"Once upon a time\" | tp-infer generate --model DIR\n"
      "  tp-infer generate --model DIR --batch requests.jsonl --output continuations.jsonl\n"
      "A line of a batch has `prompt` (a text), `ids` (token ids) or `messages` (a conversation for the "
      "model's\n"
      "chat template). It may also have an `id` (any label, repeated in the output) and settings, which\n"
      "override the flags:\n"
      "  {\"prompt\": \"Hello\", \"max_tokens\": 20, \"temperature\": 0.7, \"stop\": [\"\\n\"]}\n"
      "  {\"id\": 7, \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}\n"
      "Lines in the format of OpenAI's batch API get answers in that format:\n"
      "  {\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", \"body\": {...}}\n"
      "Each answer is written once it is complete; `index` counts the requests from 0.\n"
      "Diffusion language models fill in masked tokens in several passes. With --json, but not with "
      "--batch,\n"
      "each pass prints a line with the `position` and `token` of every token that it unmasks:\n"
      "  tp-infer generate --model DIR --prompt Hello --max-tokens 64 --steps 32 --block-length 32 --json\n"
      "A request that cannot be served does not stop the others; its line of output has an `error`.\n"
      "Exit status: 0 success, 1 error (also of a single request), 2 usage error");
  command->callback([flags, command, &status] {
    flags->json = flags->json || !flags->batch_file.empty();
    check_flags(*flags);
    if (launched_rank().rank == 0) find_prompt(*flags);
    status = run_generate(*command, *flags);
  });
}

int run_demo(const CLI::App& app) {
  GenerateFlags flags;
  flags.prompts = {kDemoPrompt};
  return run_generate(app, flags);
}

}  // namespace tp

#include "launch/generate_command.h"

#include "launch/engine_flags.h"
#include "launch/generate_output.h"
#include "launch/prompts.h"
#include "launch/rank_program.h"
#include "launch/sampling_flags.h"
#include "parallel/fail_together.h"
#include "tp/error.h"

#include <iostream>
#include <iterator>

namespace tp {
namespace {

struct GenerateFlags {
  EngineFlags engine;
  SamplingFlags sampling;
  std::vector<std::string> prompts;
  std::string prompt_file;
  std::string token_file;
  std::string batch_file;
  bool json = false;
  bool no_echo = false;
};

// One prompt, as text or as ids, and what a batch line says beyond the flags.
struct Prompt {
  std::string text;
  std::optional<std::vector<TokenId>> ids{};
  nlohmann::json overrides = nlohmann::json::object();
};

std::string read_all_of_stdin() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

Prompt prompt_of_line(const nlohmann::json& line, std::size_t number) {
  const std::string where = fmt::format("request {} of the batch", number);
  Prompt prompt;
  if (line.contains("ids")) {
    prompt.ids = token_ids_of(line, where);
  } else {
    require<RequestError>(line.contains("prompt") && line.at("prompt").is_string(),
                          "{}: expected a text in `prompt` or token ids in `ids`", where);
    prompt.text = line.at("prompt").get<std::string>();
  }
  prompt.overrides = line;
  return prompt;
}

// Rank 0 only. Throws RequestError or CheckpointError.
std::vector<Prompt> read_prompts(const GenerateFlags& flags) {
  std::vector<Prompt> prompts;
  for (const std::string& text : flags.prompts) prompts.push_back({.text = text});
  if (!flags.prompt_file.empty()) {
    prompts.push_back(
        {.text = flags.prompt_file == "-" ? read_all_of_stdin() : read_prompt_file(flags.prompt_file)});
  }
  if (!flags.token_file.empty()) prompts.push_back({.text = "", .ids = read_token_file(flags.token_file)});
  if (!flags.batch_file.empty()) {
    std::size_t number = 0;
    for (const nlohmann::json& line : read_json_lines(flags.batch_file)) {
      prompts.push_back(prompt_of_line(line, ++number));
    }
  }
  require<RequestError>(!prompts.empty(),
                        "nothing to continue; give --prompt TEXT, --prompt-file, --tokens or --batch");
  return prompts;
}

// Replaces `target` by the line's value, if it has one of the right type.
template <class T>
void override_with(const nlohmann::json& line, const char* field, T& target) {
  if (!line.contains(field)) return;
  try {
    target = line.at(field).get<T>();
  } catch (const nlohmann::json::exception&) {
    throw_error<RequestError>("a batch line's `{}` has the wrong type, found {}", field,
                              line.at(field).dump());
  }
}

Request make_request(const GenerateFlags& flags, const Prompt& prompt, const Engine& engine) {
  Request request = flags.sampling.make_request(engine.info().default_sampling);
  const nlohmann::json& line = prompt.overrides;
  SamplingParams& sampling = request.sampling;
  override_with(line, "max_tokens", request.max_tokens);
  override_with(line, "n", request.n);
  override_with(line, "ignore_eos", request.ignore_eos);
  override_with(line, "stop", request.stop);
  override_with(line, "temperature", sampling.temperature);
  override_with(line, "top_k", sampling.top_k);
  override_with(line, "top_p", sampling.top_p);
  override_with(line, "min_p", sampling.min_p);
  override_with(line, "repetition_penalty", sampling.repetition_penalty);
  override_with(line, "presence_penalty", sampling.presence_penalty);
  override_with(line, "frequency_penalty", sampling.frequency_penalty);
  override_with(line, "logprobs", sampling.logprobs);
  if (line.contains("seed")) {
    std::uint64_t seed = 0;
    override_with(line, "seed", seed);
    sampling.seed = seed;
  }
  request.prompt = prompt.ids ? *prompt.ids : engine.encode(prompt.text);
  return request;
}

// Rank 0: continues all prompts. Returns the exit status.
int generate(Engine& engine, const GenerateFlags& flags, const std::vector<Prompt>& prompts) {
  GenerateOutput output({.json = flags.json,
                         .echo = !flags.no_echo,
                         .has_text = engine.has_tokenizer(),
                         .load_seconds = engine.info().load_seconds});
  const Stopwatch watch;
  for (const Prompt& prompt : prompts) {
    try {
      Request request = make_request(flags, prompt, engine);
      const int n = request.n;
      const std::size_t prompt_tokens = request.prompt.size();
      output.expect(engine.submit(std::move(request)), n, prompt.text, prompt_tokens);
    } catch (const RequestError& error) {
      output.fail(error.what());
    }
  }
  while (engine.has_work()) {
    for (const TokenEvent& event : engine.step()) output.add(event);
  }
  if (flags.engine.verbose) {
    const double seconds = watch.seconds();
    fmt::print(stderr, "{} tokens generated in {:.2f} s, {:.1f} tokens/s over all sequences\n",
               output.generated_tokens(), seconds, static_cast<double>(output.generated_tokens()) / seconds);
  }
  return output.failed() ? 1 : 0;
}

int run_generate(const GenerateFlags& flags) {
  return run_on_ranks([&](Communicator& comm) {
    std::vector<Prompt> prompts;
    fail_together(comm, [&] {
      if (comm.is_root()) prompts = read_prompts(flags);
    });
    const std::unique_ptr<Engine> engine = open_engine(comm, flags.engine);
    return comm.is_root() ? generate(*engine, flags, prompts) : engine->follow();
  });
}

// Without --model it is the demo model, and that one has a favourite beginning.
void fill_in_defaults(GenerateFlags& flags) {
  if (!flags.engine.options.model.empty()) return;
  flags.engine.options.model = demo_model();
  if (flags.prompts.empty() && flags.prompt_file.empty() && flags.token_file.empty() &&
      flags.batch_file.empty()) {
    flags.prompts = {"Once upon a time"};
  }
}

}  // namespace

void add_generate_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = app.add_subcommand("generate", "Continue prompts");
  flags->engine.add_to(*command);
  const std::string group = "Prompts";
  command->add_option("-p,--prompt", flags->prompts, "A text to continue; may be given several times")
      ->allow_extra_args(false)
      ->group(group);
  command->add_option("--prompt-file", flags->prompt_file, "A file with one prompt; - is standard input")
      ->group(group);
  command
      ->add_option("--tokens", flags->token_file, "A JSON file: a list of token ids, or an object with `ids`")
      ->group(group);
  command
      ->add_option(
          "--batch", flags->batch_file,
          "JSON lines (- is standard input), each with `prompt` or `ids` and perhaps max_tokens, n, stop, "
          "seed, temperature, top_k, ...; implies --json")
      ->group(group);
  command->add_flag("--json", flags->json, "One JSON object a line for every continuation");
  command->add_flag("--no-echo", flags->no_echo, "Print continuations without their prompts");
  flags->sampling.add_to(*command);
  command->footer(
      "Examples:\n"
      "  mpirun -np 4 tp-infer generate --model DIR --prompt \"Once upon a time\"\n"
      "  mpirun -np 2 tp-infer generate --model DIR --prompt Hello --n 3 --temperature 0.8 --seed 7\n"
      "  tp-infer generate --model DIR --batch requests.jsonl > continuations.jsonl\n"
      "    with lines such as {\"prompt\": \"Hello\", \"max_tokens\": 20, \"stop\": [\"\\n\"]}\n"
      "Exit status: 0 done, 1 an error (also of a single request), 2 wrong usage");
  command->callback([flags, &status] {
    flags->json = flags->json || !flags->batch_file.empty();
    fill_in_defaults(*flags);
    status = run_generate(*flags);
  });
}

int run_demo() {
  GenerateFlags flags;
  fill_in_defaults(flags);
  return run_generate(flags);
}

}  // namespace tp

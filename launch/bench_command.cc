#include "launch/bench_row.h"
#include "launch/distinct_files.h"
#include "launch/message.h"
#include "launch/model_path.h"
#include "launch/numa_report.h"
#include "launch/open_engine.h"
#include "launch/option_checks.h"
#include "launch/rank_program.h"
#include "launch/result_output.h"
#include "launch/subcommand.h"
#include "launch/trace_file.h"
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "parallel/collectives.h"
#include "parallel/fail_together.h"
#include "parallel/processors.h"
#include "parallel/stopwatch.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include <CLI/CLI.hpp>

namespace tp {
namespace {

struct BenchFlags {
  EngineFlags engine;
  std::string synthetic;
  std::vector<std::size_t> prompts = {512};
  bool has_prompts = false;  // given; else they are reduced to fit the model, like the next
  std::size_t generate = 64;
  bool has_generate = false;
  std::vector<std::size_t> batches = {1};
  int repeat = 1;
  std::optional<float> temperature;
  SamplingParams sampling;  // temperature apart
  bool json = false;
  std::string output;
  std::string trace;
};

// A prompt of the sequence `index` that shares no beginning with another one's; the same in every run.
std::vector<TokenId> make_prompt(std::size_t length, std::size_t index, std::size_t vocab_size) {
  std::vector<TokenId> prompt(length);
  std::uint64_t state = 0x9E3779B97F4A7C15ULL * (index + 1);
  for (TokenId& id : prompt) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    id = static_cast<TokenId>((state >> 33) % vocab_size);
  }
  return prompt;
}

// How tokens are chosen: greedily unless a sampling option is given.
SamplingParams sampling_of(const BenchFlags& flags) {
  SamplingParams sampling = flags.sampling;
  const bool draws = sampling.top_k > 0 || sampling.top_p < 1.0F;
  sampling.temperature = flags.temperature.value_or(draws ? 1.0F : 0.0F);
  sampling.seed = 1;
  return sampling;
}

void submit_all(Engine& engine, const SamplingParams& sampling, std::size_t prompt, std::size_t batch,
                std::size_t max_tokens, std::size_t first) {
  for (std::size_t sequence = 0; sequence < batch; ++sequence) {
    Request request;
    request.prompt = make_prompt(prompt, first + sequence, engine.info().config.vocab_size);
    request.sampling = sampling;
    request.max_tokens = static_cast<int>(max_tokens);
    request.ignore_eos = true;
    engine.submit(std::move(request));
  }
}

// Throws RequestError for a sequence that ended early, which would distort the measurement.
std::vector<TokenEvent> step(Engine& engine) {
  std::vector<TokenEvent> events = engine.step();
  for (const TokenEvent& event : events)
    require<RequestError>(event.finish_reason != FinishReason::error, "{}", event.error);
  return events;
}

// Every prompt once, with one token each. `first` numbers the prompts, so that no earlier run has cached
// them.
BenchRow measure_prefill(Engine& engine, const SamplingParams& sampling, std::size_t prompt,
                         std::size_t batch, std::size_t first) {
  BenchRow row{
      .phase = "prefill", .batch = batch, .prompt = prompt, .tokens = prompt * batch, .sampling = sampling};
  submit_all(engine, sampling, prompt, batch, 1, first);
  engine.reset_statistics();
  const Stopwatch watch;
  for (; engine.has_work(); ++row.steps) step(engine);
  row.seconds = watch.seconds();
  row.ranks = engine.reports();
  return row;
}

// The prompts of measure_prefill again, found in the prefix cache; timed while all sequences generate: from
// the step after the last one has begun up to the one in which the first one ends.
BenchRow measure_decode(Engine& engine, const SamplingParams& sampling, std::size_t prompt,
                        std::size_t generate, std::size_t batch, std::size_t first) {
  BenchRow row{.phase = "decode", .batch = batch, .prompt = prompt, .sampling = sampling};
  submit_all(engine, sampling, prompt, batch, generate + 1, first);
  std::uint64_t first_request = 0;
  std::set<std::uint64_t> started;
  bool one_has_ended = false;
  Stopwatch watch;
  while (engine.has_work()) {
    const bool counted = started.size() == batch && !one_has_ended;
    for (const TokenEvent& event : step(engine)) {
      if (first_request == 0) first_request = event.request;
      if (event.request == first_request) row.token_ids.push_back(event.token);
      row.tokens += counted ? 1 : 0;
      started.insert(event.request);
      one_has_ended = one_has_ended || event.finish_reason != FinishReason::none;
    }
    if (counted) {
      ++row.steps;
      row.seconds = watch.seconds();
      if (one_has_ended) row.ranks = engine.reports();
    } else if (started.size() == batch && !one_has_ended) {
      engine.reset_statistics();
      watch.restart();
    }
  }
  require<ConfigError>(row.steps > 0,
                       "cannot measure batches of {}: the first sequence has ended when the last one begins; "
                       "raise --generate",
                       batch);
  return row;
}

void bench(Engine& engine, const PeakRates& peaks, const BenchFlags& flags, TraceFile& trace,
           ResultOutput& output) {
  std::size_t next_prompt = 1;
  const SamplingParams sampling = sampling_of(flags);
  measure_prefill(engine, sampling, std::min<std::size_t>(flags.prompts.front(), 32), 1,
                  0);  // warms up threads and memory
  trace.begin(engine);
  if (!flags.json) output.write(bench_header());
  std::vector<RankReport> last;
  const auto print = [&](const BenchRow& row) {
    output.write(text_of(row, engine, peaks, flags.json));
    last = row.ranks;
  };
  for (const std::size_t prompt : flags.prompts) {
    for (const std::size_t batch : flags.batches) {
      for (int run = 0; run < flags.repeat; ++run) {
        print(measure_prefill(engine, sampling, prompt, batch, next_prompt));
        if (flags.generate > 0)
          print(measure_decode(engine, sampling, prompt, flags.generate, batch, next_prompt));
        next_prompt += batch;
      }
    }
  }
  if (!flags.json) output.write(numa_text(last));
  for (const std::string& warning : numa_warnings(last)) print_message(warning);
  trace.finish(engine);
  output.finish();
}

std::size_t largest(const std::vector<std::size_t>& values) {
  return *std::max_element(values.begin(), values.end());
}

std::size_t length_of(const BenchFlags& flags) { return largest(flags.prompts) + flags.generate + 1; }

// The model's maximum sequence length, which is known before it is loaded.
std::size_t longest_sequence(const BenchFlags& flags) {
  const std::filesystem::path model = flags.synthetic.empty() ? find_model(flags.engine.options.model)
                                                              : std::filesystem::path(flags.synthetic);
  const std::size_t most = make_spec(load_config(model)).max_position_embeddings;
  return flags.engine.options.max_length == 0 ? most : std::min(most, flags.engine.options.max_length);
}

// Defaults are reduced if sequences are short.
void settle_lengths(BenchFlags& flags, std::size_t longest) {
  const std::size_t room =
      flags.has_prompts ? longest - std::min(longest, largest(flags.prompts) + 1) : longest / 4;
  if (!flags.has_generate && room > 0) flags.generate = std::min(flags.generate, room);
  while (!flags.has_prompts && length_of(flags) > longest && flags.prompts.front() > 1)
    flags.prompts.front() /= 2;
}

// Throws ConfigError if the longest measurement does not fit.
void check_length(const BenchFlags& flags, std::size_t longest) {
  require<ConfigError>(length_of(flags) <= longest,
                       "cannot measure {} + {} tokens: a sequence holds {}, one of them generated; lower "
                       "--prompt or --generate",
                       largest(flags.prompts), flags.generate, longest);
}

// Throws ConfigError if the largest batch does not fit: a batch that is split into several measures nothing.
void check_room(const Engine& engine, const BenchFlags& flags) {
  const EngineInfo& info = engine.info();
  const std::size_t length = length_of(flags);
  const std::size_t block = flags.engine.options.block_size;
  const std::size_t needed = largest(flags.batches) * ((length + block - 1) / block * block);
  require<ConfigError>(needed <= info.cache_tokens,
                       "cannot measure batches of {}: they need a cache of {} tokens, but it holds {}; raise "
                       "--cache-tokens, or lower --batch, --prompt or --generate",
                       largest(flags.batches), needed, info.cache_tokens);
}

// The engine must hold the largest batch at once, whatever the model's own limits would suggest.
EngineFlags engine_flags_of(const BenchFlags& flags) {
  EngineFlags engine = flags.engine;
  const std::size_t batch = largest(flags.batches);
  const std::size_t length = length_of(flags);
  engine.options.max_sequences = batch;  // of which the engine's cache_tokens are, too
  if (engine.options.cache_tokens == 0) {
    const std::size_t block = engine.options.block_size;
    engine.options.cache_tokens = batch * ((length + block - 1) / block * block + block);
  }
  if (!flags.synthetic.empty()) {
    engine.options.model = flags.synthetic;
    engine.options.synthetic = true;
  }
  return engine;
}

int run_bench(const CLI::App& command, BenchFlags flags) {
  return run_on_ranks(CommandLine::of(command), flags.engine.timeout, [&](Communicator& comm) {
    std::optional<TraceFile> trace;
    std::optional<ResultOutput> output;
    std::int64_t longest = 0;
    fail_together(comm, [&] {
      if (flags.engine.options.threads == 0)
        flags.engine.options.threads = default_threads(comm.local_size());
      if (!comm.is_root()) return;
      require_distinct_files({{"--output", flags.output}, {"--trace", flags.trace}},
                             {{"--synthetic", flags.synthetic}},
                             flags.synthetic.empty() ? find_model(flags.engine.options.model) : "");
      longest = static_cast<std::int64_t>(longest_sequence(flags));
      settle_lengths(flags, static_cast<std::size_t>(longest));
      check_length(flags, static_cast<std::size_t>(longest));
      trace.emplace(flags.trace);
      output.emplace(flags.output);
    });
    settle_lengths(flags, static_cast<std::size_t>(max_over_ranks(comm, longest)));
    const PeakRates peaks = measure_peak_rates(comm, flags.engine.options.threads);
    const std::unique_ptr<Engine> engine = open_engine(comm, engine_flags_of(flags));
    return lead_or_follow(comm, *engine, false, [&] {
      check_room(*engine, flags);
      bench(*engine, peaks, flags, *trace, *output);
      return 0;
    });
  });
}

}  // namespace

// `tp-infer bench`: tokens per second of prefill and decode.
static void add(CLI::App& app, int& status) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app.add_subcommand("bench", "Measure tokens per second of prefill and decode");
  flags->engine.add_to(*command, WeightNames::all);
  command
      ->add_option("--synthetic", flags->synthetic,
                   "A config.json: weights of its shapes are generated, no checkpoint is needed")
      ->check(not_empty("a file"))
      ->type_name("FILE");
  CLI::Option* const prompts =
      command->add_option("--prompt", flags->prompts, "Prompt length in tokens, or a list: 128,512")
          ->delimiter(',')
          ->check(whole_number(1, 1 << 24))
          ->type_name("N")
          ->capture_default_str();
  CLI::Option* const generate =
      command->add_option("--generate", flags->generate, "Tokens to generate; 0 measures prefill only")
          ->check(whole_number(0, 1 << 24))
          ->type_name("N")
          ->capture_default_str();
  command->add_option("--batch", flags->batches, "Concurrent sequences, or a list: 1,16")
      ->delimiter(',')
      ->check(whole_number(1, 4096))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--repeat", flags->repeat, "Repetitions per row")
      ->check(whole_number(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--temperature", flags->temperature,
                   "Sample with this temperature, instead of taking the most likely token")
      ->check(number())
      ->type_name("T");
  command->add_option("--top-k", flags->sampling.top_k, "Sample among the k most likely tokens")
      ->check(whole_number(0, 1 << 30))
      ->type_name("K");
  command
      ->add_option("--top-p", flags->sampling.top_p,
                   "Sample from the smallest set of tokens with cumulative probability p")
      ->check(number())
      ->type_name("P");
  command->add_flag("--json", flags->json, "One JSON object per row");
  add_output_option(*command, flags->output);
  add_trace_option(*command, flags->trace);
  command->footer(
      "If the model's maximum sequence length is short, the defaults of --prompt and --generate are "
      "reduced.\n"
      "A decode row measures the steps in which all sequences generate. `collective` is the share of time\n"
      "spent in all-reduces, `waiting` that of waiting for slower ranks, both averaged over the ranks.\n"
      "`of streaming` is the rate at which weights are read, as a fraction of the peak memory bandwidth\n"
      "measured with the same ranks and threads; `of arithmetic` that of multiplications and additions, as\n"
      "a fraction of the peak measured in registers.\n"
      "`over` marks a rate above the measured peak, which makes the peak meaningless; a line below has the\n"
      "numbers, and JSON lists the rates in `peaks_exceeded`.\n"
      "Examples:\n"
      "  mpirun -np 2 tp-infer bench --model DIR --prompt 512 --generate 64 --batch 1,16\n"
      "  mpirun -np 2 tp-infer bench --synthetic bench/shapes/llama-1b.json --json\n"
      "  mpirun -np 2 tp-infer bench --synthetic bench/shapes/llama-1b.json --weights q4_k --batch 1,16");
  command->callback([=, &status] {
    flags->has_prompts = prompts->count() > 0;
    flags->has_generate = generate->count() > 0;
    const std::size_t batch = largest(flags->batches);
    if (command->get_option("--max-batch")->count() > 0 && flags->engine.options.max_sequences < batch) {
      throw CLI::ValidationError(fmt::format(
          "--batch needs {} sequences at once, but --max-batch allows {}; raise it, or leave it out", batch,
          flags->engine.options.max_sequences));
    }
    if (!flags->synthetic.empty() && !flags->engine.options.model.empty()) {
      throw CLI::ValidationError(
          "--synthetic generates weights, but --model names a checkpoint; leave out one of them");
    }
    const std::optional<WeightType> type = flags->engine.options.weights;
    if (type && !is_convertible(*type) && flags->synthetic.empty()) {
      throw CLI::ValidationError(fmt::format(
          "--weights: expected a type to which weights can be converted, found {0}; files that store {0} "
          "weights keep it with auto, and --synthetic generates such weights",
          name_of(*type)));
    }
    try {
      sampling_of(*flags).validate();
    } catch (const RequestError& error) {
      throw CLI::ValidationError(error.what());
    }
    status = run_bench(*command, *flags);
  });
}

static const Subcommand kRegistered(Subcommand::Place::bench, add);

}  // namespace tp

#include "launch/bench_command.h"

#include "launch/distinct_files.h"
#include "launch/engine_flags.h"
#include "launch/model_path.h"
#include "launch/option_checks.h"
#include "launch/rank_program.h"
#include "launch/rate.h"
#include "launch/result_output.h"
#include "launch/table.h"
#include "launch/trace_file.h"
#include "parallel/fail_together.h"
#include "parallel/stopwatch.h"
#include "runtime/api/rounded.h"
#include "tp/ceilings.h"
#include "tp/error.h"

#include <algorithm>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

struct BenchFlags {
  EngineFlags engine;
  std::string synthetic;
  std::vector<std::size_t> prompts = {512};
  std::size_t generate = 64;
  std::vector<std::size_t> batches = {1};
  int repeat = 1;
  std::optional<float> temperature;
  SamplingParams sampling;  // temperature apart
  bool json = false;
  std::string output;
  std::string trace;
};

// One measurement, over all ranks.
struct BenchRow {
  std::string phase;  // "prefill" or "decode"
  std::size_t batch = 0;
  std::size_t prompt = 0;  // tokens of each sequence's prompt
  std::size_t tokens = 0;  // computed (prefill) or generated (decode), in all sequences
  std::size_t steps = 0;
  double seconds = 0.0;
  SamplingParams sampling{};
  std::vector<RankReport> ranks{};
  std::vector<TokenId> token_ids{};  // decode: of the first sequence

  double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
  double ms_per_step() const { return 1000 * seconds / static_cast<double>(steps); }
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

// How tokens are chosen: greedily unless something is asked for that needs draws.
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

// Every prompt once, with one token each. `first` numbers the prompts, so that no earlier run has cached
// them.
BenchRow measure_prefill(Engine& engine, const SamplingParams& sampling, std::size_t prompt,
                         std::size_t batch, std::size_t first) {
  BenchRow row{
      .phase = "prefill", .batch = batch, .prompt = prompt, .tokens = prompt * batch, .sampling = sampling};
  submit_all(engine, sampling, prompt, batch, 1, first);
  engine.reset_statistics();
  const Stopwatch watch;
  for (; engine.has_work(); ++row.steps) engine.step();
  row.seconds = watch.seconds();
  row.ranks = engine.reports();
  return row;
}

// The prompts of measure_prefill again, found in the cache; timed while all sequences generate: from the step
// on in which the last one has begun to the one in which the first one ends.
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
    for (const TokenEvent& event : engine.step()) {
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

nlohmann::json rank_json(const RankReport& report) {
  return {{"host", report.host},
          {"compute_s", rounded(report.time.compute)},
          {"collective_s", rounded(report.time.collectives)},
          {"waiting_s", rounded(report.time.waiting)},
          {"sampling_s", rounded(report.time.sampling)},
          {"control_s", rounded(report.time.control)},
          {"peak_resident_bytes", report.peak_resident_bytes},
          {"weight_bytes", report.weight_bytes}};
}

// The rate of the fastest unit that products of many tokens can run on.
double peak_of(const Ceilings& ceilings, const std::string& weights) {
  if (weights == "bf16" && ceilings.bf16_per_second > 0) return ceilings.bf16_per_second;
  const bool integers = weights == "int8" || weights == "int4";
  return integers && ceilings.int8_per_second > 0 ? ceilings.int8_per_second : ceilings.f32_per_second;
}

Rate streaming_of(const nlohmann::json& row) { return {row.at("bandwidth_gb_s"), row.at("streaming_gb_s")}; }
Rate arithmetic_of(const nlohmann::json& row) { return {row.at("tflops"), row.at("peak_tflops")}; }

nlohmann::json row_json(const BenchRow& row, const Engine& engine, const Ceilings& ceilings) {
  std::size_t weight_bytes = 0;
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankReport& report : row.ranks) {
    ranks.push_back(rank_json(report));
    weight_bytes += report.weight_bytes;
  }
  const TimeParts time = mean_time(row.ranks);
  const double weights_per_step = static_cast<double>(weight_bytes);
  nlohmann::json json = {
      {"phase", row.phase},
      {"batch", row.batch},
      {"prompt", row.prompt},
      {"tokens", row.tokens},
      {"steps", row.steps},
      {"seconds", rounded(row.seconds)},
      {"tokens_per_s", rounded(row.tokens_per_second())},
      {"ms_per_step", rounded(row.ms_per_step())},
      {"sampling",
       {{"temperature", rounded(row.sampling.temperature)},
        {"top_k", row.sampling.top_k},
        {"top_p", rounded(row.sampling.top_p)}}},
      {"weights", engine.info().weights},
      {"kv_type", engine.info().kv_type},
      {"ranks", row.ranks.size()},
      {"threads", row.ranks.front().threads},
      {"parameters", engine.info().parameters},
      {"weight_bytes_per_step", weight_bytes},
      {"bandwidth_gb_s", rounded(weights_per_step * static_cast<double>(row.steps) / row.seconds / 1e9)},
      {"streaming_gb_s", rounded(ceilings.streaming_bytes_per_second / 1e9)},
      {"tflops",
       rounded(2.0 * static_cast<double>(engine.info().parameters) * row.tokens_per_second() / 1e12)},
      {"peak_tflops", rounded(peak_of(ceilings, engine.info().weights) / 1e12)},
      {"all_reduces_per_step", row.ranks.front().all_reduces / row.ranks.front().steps},
      {"all_reduce_bytes_per_token",
       rounded(static_cast<double>(row.ranks.front().all_reduce_bytes) / static_cast<double>(row.tokens), 9)},
      {"compute_share", rounded(time.compute / row.seconds)},
      {"collective_share", rounded(time.collectives / row.seconds)},
      {"waiting_share", rounded(time.waiting / row.seconds)},
      {"sampling_share", rounded(time.sampling / row.seconds)},
      {"control_share", rounded(time.control / row.seconds)},
      {"slowest_rank", slowest_rank(row.ranks)},
      {"per_rank", ranks}};
  if (streaming_of(json).exceeds()) json["ceilings_exceeded"].push_back("streaming_gb_s");
  if (arithmetic_of(json).exceeds()) json["ceilings_exceeded"].push_back("peak_tflops");
  if (!row.token_ids.empty()) json["token_ids"] = row.token_ids;
  return json;
}

// A line that says so if the ranks wait much for one of them, else nothing.
std::string slow_rank_text(const BenchRow& row) {
  constexpr double kMuch = 0.1;  // of the time, as a mean over the others
  if (row.ranks.size() < 2) return {};
  const std::size_t slowest = slowest_rank(row.ranks);
  double waiting = 0.0;
  for (const RankReport& report : row.ranks) waiting += report.time.waiting - row.ranks[slowest].time.waiting;
  const double share = waiting / static_cast<double>(row.ranks.size() - 1) / row.seconds;
  if (share < kMuch) return {};
  return fmt::format("         the others wait {:.0f} % of the time for rank {} on {}\n", 100 * share,
                     slowest, row.ranks[slowest].host);
}

// Wide enough for what most rows hold.
Table make_table() {
  return Table({"phase", "batch", "prompt", "weights", "ranks", "threads", "tokens/s", "ms/step",
                "of streaming", "of arithmetic", "collective", "waiting"},
               {7, 5, 6, 7, 5, 7, 10, 10});
}

std::string excess_text(const Rate& rate, const char* what, const char* unit, const char* reason) {
  if (!rate.exceeds()) return {};
  return fmt::format("         {} {}: {}\n", what, rate.excess(unit), reason);
}

std::string line_text(const BenchRow& row, const nlohmann::json& object) {
  const auto percent = [&](const char* field) {
    return fmt::format("{:.1f}%", 100 * object.at(field).get<double>());
  };
  const Rate streaming = streaming_of(object);
  const Rate arithmetic = arithmetic_of(object);
  return make_table().line(
             {row.phase, fmt::to_string(row.batch), fmt::to_string(row.prompt), object.at("weights"),
              fmt::to_string(row.ranks.size()), fmt::to_string(row.ranks.front().threads),
              fmt::format("{:.1f}", row.tokens_per_second()), fmt::format("{:.3f}", row.ms_per_step()),
              streaming.share(), arithmetic.share(), percent("collective_share"), percent("waiting_share")}) +
         excess_text(streaming, "weights were read at", "GB/s",
                     "that measurement was disturbed, or the weights stay in the caches") +
         excess_text(arithmetic, "the products reached", "TFLOP/s", "that measurement was disturbed") +
         slow_rank_text(row);
}

std::string row_text(const BenchRow& row, const Engine& engine, const Ceilings& ceilings, bool json) {
  const nlohmann::json object = row_json(row, engine, ceilings);
  return json ? object.dump() + "\n" : line_text(row, object);
}

void bench(Engine& engine, const Ceilings& ceilings, const BenchFlags& flags, TraceFile& trace,
           ResultOutput& output) {
  std::size_t next_prompt = 1;
  const SamplingParams sampling = sampling_of(flags);
  measure_prefill(engine, sampling, std::min<std::size_t>(flags.prompts.front(), 32), 1,
                  0);  // warms up threads and memory
  trace.begin(engine);
  if (!flags.json) output.write(make_table().header());
  const auto print = [&](const BenchRow& row) { output.write(row_text(row, engine, ceilings, flags.json)); };
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
  trace.finish(engine);
  output.finish();
}

std::size_t largest(const std::vector<std::size_t>& values) {
  return *std::max_element(values.begin(), values.end());
}

// Throws ConfigError if the largest measurement does not fit: a batch that takes turns says nothing.
void check_room(const Engine& engine, const BenchFlags& flags) {
  const EngineInfo& info = engine.info();
  const std::size_t length = largest(flags.prompts) + flags.generate + 1;
  require<ConfigError>(length <= info.max_length,
                       "cannot measure {} + {} tokens: a sequence holds {}, one of them generated; lower "
                       "--prompt or --generate",
                       largest(flags.prompts), flags.generate, info.max_length);
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
  const std::size_t length = largest(flags.prompts) + flags.generate + 1;
  engine.options.max_sequences = std::max(engine.options.max_sequences, batch);
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

int run_bench(const CLI::App& command, const BenchFlags& flags) {
  return run_on_ranks(CommandLine::of(command), flags.engine.timeout, [&](Communicator& comm) {
    std::optional<TraceFile> trace;
    std::optional<ResultOutput> output;
    fail_together(comm, [&] {
      if (!comm.is_root()) return;
      require_distinct_files({{"--output", flags.output}, {"--trace", flags.trace}},
                             {{"--synthetic", flags.synthetic}},
                             flags.synthetic.empty() ? find_model(flags.engine.options.model) : "");
      trace.emplace(flags.trace);
      output.emplace(flags.output);
    });
    const Ceilings ceilings = measure_ceilings(comm, flags.engine.options.threads);
    const std::unique_ptr<Engine> engine = open_engine(comm, engine_flags_of(flags));
    return lead_or_follow(comm, *engine, [&] {
      check_room(*engine, flags);
      bench(*engine, ceilings, flags, *trace, *output);
      return 0;
    });
  });
}

}  // namespace

void add_bench_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app.add_subcommand("bench", "Measure tokens per second of prefill and decode");
  flags->engine.add_to(*command);
  command
      ->add_option("--synthetic", flags->synthetic,
                   "A config.json: weights of its shapes are generated, no checkpoint is needed")
      ->check(not_empty("a file"))
      ->type_name("FILE");
  command->add_option("--prompt", flags->prompts, "Tokens of a prompt; several: 128,512")
      ->delimiter(',')
      ->check(whole_number(1, 1 << 24))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--generate", flags->generate, "Tokens to generate; 0 measures prefill only")
      ->check(whole_number(0, 1 << 24))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--batch", flags->batches, "Sequences at once; several: 1,16")
      ->delimiter(',')
      ->check(whole_number(1, 4096))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--repeat", flags->repeat, "Times to measure every row")
      ->check(whole_number(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--temperature", flags->temperature, "Draw tokens, instead of taking the most likely")
      ->check(number())
      ->type_name("T");
  command->add_option("--top-k", flags->sampling.top_k, "Draw among the k most likely tokens")
      ->check(whole_number(0, 1 << 30))
      ->type_name("K");
  command
      ->add_option("--top-p", flags->sampling.top_p,
                   "Draw among the most likely tokens that reach probability p together")
      ->check(number())
      ->type_name("P");
  command->add_flag("--json", flags->json, "One JSON object a line for every row");
  add_output_option(*command, flags->output);
  add_trace_option(*command, flags->trace);
  command->footer(
      "A decode row counts the steps in which all sequences generate. `collective` is the share of time in\n"
      "the exchange of all-reduces, `waiting` that of waiting for slower ranks, both averaged over the "
      "ranks.\n"
      "`of streaming` is the rate at which weights are read, against plain reading of memory by the same\n"
      "ranks and threads; `of arithmetic` that of multiplications and additions, against a loop in "
      "registers.\n"
      "`over` marks what passed such a ceiling, which then is none: a line below has the numbers, JSON\n"
      "`ceilings_exceeded`.\n"
      "Examples:\n"
      "  mpirun -np 2 tp-infer bench --model DIR --prompt 512 --generate 64 --batch 1,16\n"
      "  mpirun -np 2 tp-infer bench --synthetic bench/shapes/llama-1b.json --json");
  command->callback([flags, command, &status] {
    if (!flags->synthetic.empty() && !flags->engine.options.model.empty()) {
      throw CLI::ValidationError(
          "--synthetic has weights made up, but --model names some; leave out one of them");
    }
    try {
      sampling_of(*flags).validate();
    } catch (const RequestError& error) {
      throw CLI::ValidationError(error.what());
    }
    status = run_bench(*command, *flags);
  });
}

}  // namespace tp

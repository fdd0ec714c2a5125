#include "launch/bench/bench_ceilings.h"
#include "launch/bench/bench_flags.h"
#include "launch/bench/bench_format.h"
#include "launch/bench/bench_replay.h"
#include "launch/bench/bench_row.h"
#include "launch/bench/bench_runs.h"
#include "launch/bench/bench_work.h"
#include "launch/commands/subcommands.h"
#include "launch/common/message.h"
#include "launch/common/progress.h"
#include "launch/common/result_output.h"
#include "launch/common/trace_file.h"
#include "launch/options/model_path.h"
#include "launch/options/speculate_flag.h"
#include "launch/ranks/numa_report.h"
#include "launch/ranks/open_engine.h"
#include "launch/ranks/rank_program.h"
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/exchange/placement.h"
#include "parallel/machine/processors.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>

namespace tp {
namespace {

// Reports how much time masks add to a step. Compares medians within each turn, because a shared machine's
// speed may change by half between turns.
std::string mask_overhead(const MaskRows& rows) {
  std::vector<double> ratios = rows.ratios;
  std::sort(ratios.begin(), ratios.end());
  const auto percent = [](double ratio) { return 100 * (ratio - 1); };
  return fmt::format(
      "masks of {} schemas: {:+.1f} % of a step's time (median; {:+.1f} to {:+.1f} % in {} turns), {:+.1f} % "
      "(99th percentile)\n",
      rows.masked.batch, percent(ratios[ratios.size() / 2]), percent(ratios.front()), percent(ratios.back()),
      ratios.size(), percent(step_quantile(rows.masked, 0.99) / step_quantile(rows.plain, 0.99)));
}

// Counts the runs that have begun.
class BenchProgress {
 public:
  explicit BenchProgress(std::size_t runs) : runs_(runs) {}
  void begin_run() { bar_.update(static_cast<double>(begun_++) / static_cast<double>(runs_)); }

 private:
  ProgressBar bar_{"measuring"};
  std::size_t runs_;
  std::size_t begun_ = 0;
};

// The first of several runs only warms up.
std::size_t repetitions_of(const BenchFlags& flags) {
  return flags.repeat == 1 ? 1 : static_cast<std::size_t>(flags.repeat) + 1;
}

std::size_t runs_of(const BenchFlags& flags) {
  if (flags.acceptance_trace.empty())
    return flags.prompts.size() * flags.batches.size() * repetitions_of(flags);
  std::size_t runs = 0;
  for (const std::size_t batch : flags.batches) runs += (flags.replay.texts.size() + batch - 1) / batch;
  return runs;
}

// The rows of a prompt length and a batch size, all of their runs.
using RunsOfPhases = std::vector<std::vector<BenchRow>>;

void add_run(BenchRow row, RunsOfPhases& phases) {
  const auto same = std::ranges::find_if(
      phases, [&](const std::vector<BenchRow>& runs) { return runs.front().is_like(row); });
  if (same == phases.end())
    phases.push_back({std::move(row)});
  else
    same->push_back(std::move(row));
}

RunsOfPhases measure(Engine& engine, const SamplingParams& sampling, const BenchFlags& flags,
                     std::size_t prompt, std::size_t batch, std::size_t& next_prompt,
                     BenchProgress& progress) {
  RunsOfPhases phases;
  const bool decodes = flags.generates && flags.generate > 0;
  for (std::size_t repetition = 0; repetition < repetitions_of(flags); ++repetition) {
    progress.begin_run();
    const BenchRun run{.sampling = sampling,
                       .prompt = prompt,
                       .batch = batch,
                       .generate = flags.generate,
                       .first = next_prompt};
    add_run(flags.generates ? measure_prefill(engine, run) : measure_embed(engine, run), phases);
    if (decodes) add_run(measure_decode(engine, run), phases);
    if (decodes && flags.constraint) {
      const MaskRows rows = measure_masks(engine, run);
      add_run(rows.plain, phases);
      add_run(rows.masked, phases);
      print_note(mask_overhead(rows));
    }
    next_prompt += batch;
  }
  return phases;
}

// The turns of the texts from `first` on.
RunsOfPhases measure_texts(Engine& engine, const SamplingParams& sampling, const BenchFlags& flags,
                           std::size_t batch, std::size_t first, std::size_t& next_prompt) {
  const std::size_t turns = repetitions_of(flags);
  const BenchRun run{.sampling = sampling, .batch = batch, .first = next_prompt};
  next_prompt += turns * batch;
  ReplayTurns all = measure_replay_turns(engine, flags.replay, run, first, turns);
  print_note(all.summary());
  return {std::move(all.plain), std::move(all.drafted)};
}

// Returns a line if the machine's speed has changed, otherwise nothing.
std::string moved_text(const BenchCeilings& ceilings) {
  constexpr double kMuch = 1.1;
  if (ceilings.max_streaming() < kMuch * ceilings.min_streaming()) return {};
  return fmt::format(
      "the machine's peak bandwidth was between {:.3g} and {:.3g} GB/s meanwhile; compare in turns "
      "(bench/compare)\n",
      ceilings.min_streaming() / 1e9, ceilings.max_streaming() / 1e9);
}

void bench(Engine& engine, const PeakRates& peaks, const BenchFlags& flags, const BenchSetup& setup,
           const BenchWork& work, TraceFile& trace, ResultOutput& output) {
  std::size_t next_prompt = 1;
  const BenchFormat format = flags.format();
  const SamplingParams sampling = flags.chosen_by();
  // Warms up threads and memory.
  (flags.generates ? measure_prefill : measure_embed)(
      engine, {.sampling = sampling, .prompt = std::min<std::size_t>(flags.prompts.front(), 32), .batch = 1});
  trace.begin(engine);
  output.write(bench_heading(format, setup));
  std::vector<RankReport> last;
  BenchCeilings ceilings(engine, peaks);
  BenchProgress progress(runs_of(flags));
  const auto write = [&](RunsOfPhases phases) {
    ceilings.measure();
    for (std::vector<BenchRow>& runs : phases) {
      BenchSummary summary = summary_of(std::move(runs));
      summary.before = ceilings.before();
      summary.after = ceilings.after();
      summary.peaks = ceilings.mean();
      summary.work = work.of_step(summary.row);
      output.write(format_summary(summary, engine, format, setup));
      last = std::move(summary.row.ranks);
    }
  };
  for (const std::size_t batch : flags.batches) {
    for (std::size_t first = 0; first < flags.replay.texts.size(); first += batch) {
      progress.begin_run();
      write(measure_texts(engine, sampling, flags, batch, first, next_prompt));
    }
  }
  for (const std::size_t prompt :
       flags.acceptance_trace.empty() ? flags.prompts : std::vector<std::size_t>()) {
    for (const std::size_t batch : flags.batches)
      write(measure(engine, sampling, flags, prompt, batch, next_prompt, progress));
  }
  if (format == BenchFormat::table) output.write(moved_text(ceilings) + numa_text(last));
  for (const std::string& warning : numa_warnings(last)) print_message(warning);
  trace.finish(engine);
  output.finish();
}

std::size_t length_of(const BenchFlags& flags) {
  return flags.longest_prompt() + (flags.generates ? flags.generate + 1 : 0);
}

CheckpointConfig config_of(const BenchFlags& flags) {
  return load_config(flags.synthetic.empty() ? find_model(flags.engine.options.model)
                                             : std::filesystem::path(flags.synthetic));
}

// The model's maximum sequence length, which is known before it is loaded.
std::size_t longest_sequence(const BenchFlags& flags, const CheckpointConfig& config) {
  const std::size_t max = make_spec(config).max_position_embeddings;
  return flags.engine.options.max_length == 0 ? max : std::min(max, flags.engine.options.max_length);
}

// Defaults are reduced if sequences are short.
void choose_lengths(BenchFlags& flags, std::size_t longest) {
  if (!flags.acceptance_trace.empty()) return;
  const std::size_t room =
      flags.has_prompts ? longest - std::min(longest, flags.longest_prompt() + 1) : longest / 4;
  if (!flags.has_generate && room > 0) flags.generate = std::min(flags.generate, room);
  while (!flags.has_prompts && length_of(flags) > longest && flags.prompts.front() > 1)
    flags.prompts.front() /= 2;
}

// Only for rank 0.
void read_texts(BenchFlags& flags, std::size_t vocab_size, std::size_t longest) {
  require<ConfigError>(flags.generates,
                       "cannot replay texts: {} doesn't generate texts; leave out --acceptance-trace",
                       flags.synthetic.empty() ? "the model" : flags.synthetic);
  flags.replay.texts = read_real_texts(flags.acceptance_trace);
  const bool has_history = flags.engine.options.speculation.draft_history != 0;
  // Every turn repeats the texts. Without a draft history, each turn must compute them as if they were new.
  for (RealText& text : flags.replay.texts) text.request.cache_prompt = has_history;
  flags.replay.add_to(flags.engine.options, flags.engine.hooks, vocab_size);
  require<ConfigError>(flags.replay.longest() <= longest,
                       "cannot replay a text of {} tokens with its prompt: a sequence holds {}; leave it out",
                       flags.replay.longest(), longest);
  flags.prompts = {flags.replay.longest() - 1};  // length_of adds one
  flags.generate = 0;
}

// The other ranks do not read the texts.
void agree_on_lengths(Communicator& comm, BenchFlags& flags) {
  if (flags.acceptance_trace.empty()) return;
  const std::int64_t own = comm.is_root() ? static_cast<std::int64_t>(flags.prompts.front()) : 0;
  flags.prompts = {static_cast<std::size_t>(max_over_ranks(comm, own))};
  flags.generate = 0;
}

// Throws ConfigError if the longest measurement does not fit.
void check_length(const BenchFlags& flags, std::size_t longest) {
  require<ConfigError>(length_of(flags) <= longest,
                       "cannot measure {} + {} tokens: a sequence holds {}, one of them generated; lower "
                       "--prompt or --generate",
                       flags.longest_prompt(), flags.generate, longest);
}

// Throws ConfigError if the largest batch does not fit, because a batch that is split would distort the
// measurement.
void check_room(const Engine& engine, const BenchFlags& flags) {
  const EngineInfo& info = engine.info();
  const std::size_t length = length_of(flags);
  const std::size_t block = flags.engine.options.block_size;
  const std::size_t needed = flags.largest_batch() * ((length + block - 1) / block * block);
  require<ConfigError>(needed <= info.options.cache_tokens,
                       "cannot measure batches of {}: they need a cache of {} tokens, but it holds {}; raise "
                       "--cache-tokens, or lower --batch, --prompt or --generate",
                       flags.largest_batch(), needed, info.options.cache_tokens);
}

// Returns the model from the command line.
std::filesystem::path model_of(const BenchFlags& flags) {
  return flags.synthetic.empty() ? flags.engine.options.model : std::filesystem::path(flags.synthetic);
}

// The engine must hold the largest batch at once, regardless of the model's own limits.
EngineFlags engine_flags_of(const BenchFlags& flags) {
  EngineFlags engine = flags.engine;
  const std::size_t batch = flags.largest_batch();
  const std::size_t length = length_of(flags);
  engine.options.max_sequences = batch;  // cache_tokens counts these sequences, too
  if (engine.options.cache_tokens == 0 && flags.generates) {
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
    std::int64_t generates = 0;
    fail_together(comm, [&] {
      if (flags.engine.options.threads == 0) flags.engine.options.threads = default_threads(comm.placement());
      if (!comm.is_root()) return;
      const CheckpointConfig config = config_of(flags);
      flags.generates = does(kind_of(config), Task::generate);
      generates = flags.generates ? 1 : 0;
      longest = static_cast<std::int64_t>(longest_sequence(flags, config));
      choose_lengths(flags, static_cast<std::size_t>(longest));
      if (!flags.acceptance_trace.empty())
        read_texts(flags, config.vocab_size, static_cast<std::size_t>(longest));
      check_length(flags, static_cast<std::size_t>(longest));
      trace.emplace(flags.trace);
      output.emplace(flags.output);
    });
    flags.generates = max_over_ranks(comm, generates) == 1;
    choose_lengths(flags, static_cast<std::size_t>(max_over_ranks(comm, longest)));
    agree_on_lengths(comm, flags);
    const PeakRates peaks = measure_peak_rates(comm, flags.engine.options.threads);
    const std::unique_ptr<Engine> engine = open_engine(comm, engine_flags_of(flags));
    return lead_or_follow(comm, *engine, false, [&] {
      if (flags.generates) check_room(*engine, flags);
      const BenchWork work(engine_flags_of(flags).options, comm.size(), *engine->info().options.kv_type);
      bench(*engine, peaks, flags, bench_setup(*engine, comm.size(), model_of(flags)), work, *trace, *output);
      if (flags.engine.options.speculation.drafts != DraftKind::none)
        print_note(describe_drafts(engine->status().speculation));
      return 0;
    });
  });
}

}  // namespace

// `tp-infer bench`: tokens per second of prefill and decode.
void add_bench_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app.add_subcommand("bench", "Measure prefill and decode in tokens per second");
  add_bench_options(*command, *flags);
  command->callback([=, &status] {
    check_bench_options(*command, *flags);
    status = run_bench(*command, *flags);
  });
}

}  // namespace tp

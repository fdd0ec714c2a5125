#include "launch/bench/bench_runs.h"

#include "model/tokenizer/text/utf8.h"
#include "parallel/machine/stopwatch.h"
#include "parallel/shard/shard.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

// Returns a prompt for the sequence `index`. It shares no beginning with other prompts and is the same in
// every run.
std::vector<TokenId> make_prompt(std::size_t length, std::size_t index, std::size_t vocab_size) {
  std::vector<TokenId> prompt(length);
  std::uint64_t state = 0x9E3779B97F4A7C15ULL * (index + 1);
  for (TokenId& id : prompt) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    id = static_cast<TokenId>((state >> 33) % vocab_size);
  }
  return prompt;
}

// Returns how many token ids prompts may use. If the first rank pretends to be one of many, only its own
// tokens have an embedding.
std::size_t prompt_vocabulary(const EngineInfo& info) {
  return info.options.pretend_ranks == 0
             ? info.config.vocab_size
             : shard_columns(info.config.vocab_size, {0, info.options.pretend_ranks}).end;
}

// Returns a schema of about 2 KB, different for each number. Its texts don't end before the measurement does.
Constraint schema_of(std::size_t number) {
  std::string members;
  std::string names;
  for (int i = 0; i < 9; ++i) {
    const std::string name = fmt::format("field_{}_of_{}", i, number);
    const char* const separator = i == 0 ? "" : ", ";
    names += fmt::format("{}\"{}\"", separator, name);
    members += fmt::format(
        R"({}"{}": {{"type": "object", "properties": {{"text": {{"type": "string"}}, "kind": {{"enum": ["first", "second", "third"]}}, )"
        R"("count": {{"type": "integer", "minimum": 0, "maximum": 5000}}, "when": {{"format": "date"}}}}, "required": ["text", "kind", "count"]}})",
        separator, name);
  }
  return constraint::JsonSchema{
      .schema = fmt::format(
          R"({{"type": "array", "minItems": 100000, "items": {{"type": "object", "properties": {{{}}}, "required": [{}]}}}})",
          members, names)};
}

// Every text of the schema begins with this text, apart from white space.
std::string begin_of_texts(std::size_t number) {
  return fmt::format(R"([{{"field_0_of_{}":{{"text":")", number);
}

// `first_schema`: number of the first sequence's schema; without a number, requests have no constraints.
std::vector<Request> requests_of(const Engine& engine, const BenchRun& run, std::size_t max_tokens,
                                 std::optional<std::size_t> first_schema = {}) {
  std::vector<Request> requests(run.batch);
  for (std::size_t sequence = 0; sequence < run.batch; ++sequence) {
    Request& request = requests[sequence];
    request.prompt = make_prompt(run.prompt, run.first + sequence, prompt_vocabulary(engine.info()));
    request.sampling = run.sampling;
    request.max_tokens = static_cast<int>(max_tokens);
    request.ignore_eos = true;
    if (first_schema) request.constraint = schema_of(*first_schema + sequence);
  }
  return requests;
}

void submit_all(Engine& engine, std::vector<Request> requests) {
  for (Request& request : requests) engine.submit(std::move(request));
}

std::vector<TokenEvent> step(Engine& engine) {
  std::vector<TokenEvent> events = engine.step();
  for (const TokenEvent& event : events)
    require<RequestError>(event.finish_reason != FinishReason::error, "{}", event.error);
  return events;
}

// Runs the requests at the same time. The time counts while all of them generate. `texts` receives their
// tokens.
BenchRow measure_steps(Engine& engine, std::string phase, const BenchRun& run, std::vector<Request> requests,
                       std::vector<std::vector<TokenId>>* texts = nullptr) {
  BenchRow row{.phase = std::move(phase), .batch = run.batch, .prompt = run.prompt, .sampling = run.sampling};
  submit_all(engine, std::move(requests));
  std::map<std::uint64_t, std::vector<TokenId>> tokens;  // by request, in the order of their submission
  std::set<std::uint64_t> started;
  bool one_has_ended = false;
  Stopwatch watch;
  double last_step = 0.0;
  while (engine.has_work()) {
    const bool counted = started.size() == run.batch && !one_has_ended;
    for (const TokenEvent& event : step(engine)) {
      tokens[event.request].push_back(event.token);
      row.tokens += counted ? 1 : 0;
      started.insert(event.request);
      one_has_ended = one_has_ended || event.finish_reason != FinishReason::none;
    }
    if (counted) {
      ++row.steps;
      row.seconds = watch.seconds();
      row.step_seconds.push_back(row.seconds - std::exchange(last_step, row.seconds));
      if (one_has_ended) row.ranks = engine.reports();
    } else if (started.size() == run.batch && !one_has_ended) {
      engine.reset_statistics();
      watch.restart();
    }
  }
  row.token_ids = tokens.begin()->second;
  if (texts != nullptr) {
    for (auto& [request, text] : tokens) texts->push_back(std::move(text));
  }
  require<ConfigError>(
      row.steps > 0,
      "cannot measure batches of {}: the first sequence ends before the last one begins; raise --generate",
      run.batch);
  return row;
}

// The prompt may end within a character. The text then begins with the rest of this character.
void require_begin(std::string text, std::size_t number) {
  while (text.starts_with(utf8::kReplacement)) text.erase(0, utf8::kReplacement.size());
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; });
  const std::string begin = begin_of_texts(number);
  const std::size_t size = std::min(text.size(), begin.size());
  require<RequestError>(size > 0 && text.compare(0, size, begin, 0, size) == 0,
                        "cannot measure masks: expected a text that begins with {}, as its schema says, "
                        "found {}; this is a bug in tp-infer",
                        begin, text.substr(0, begin.size()));
}

// Uses different schemas than the timed run, so that the timed run doesn't find cached masks.
void check_masks(Engine& engine, const BenchRun& run) {
  constexpr std::size_t kTokens = 40;
  constexpr std::size_t kOthers = 1000000;
  submit_all(engine, requests_of(engine, run, std::min(kTokens, run.generate + 1), kOthers));
  std::map<std::uint64_t, std::string> texts;  // by request, in the order of their submission
  while (engine.has_work()) {
    for (const TokenEvent& event : step(engine)) texts[event.request] += event.text;
  }
  std::size_t number = kOthers;
  for (const auto& [request, text] : texts) require_begin(text, number++);
}

// Keeps the last turn's row, with the step times of all turns.
void add_turn(BenchRow row, BenchRow& all) {
  row.step_seconds.insert(row.step_seconds.end(), all.step_seconds.begin(), all.step_seconds.end());
  all = std::move(row);
}

}  // namespace

BenchRow measure_prefill(Engine& engine, const BenchRun& run) {
  BenchRow row{.phase = "prefill",
               .batch = run.batch,
               .prompt = run.prompt,
               .tokens = run.prompt * run.batch,
               .sampling = run.sampling};
  submit_all(engine, requests_of(engine, run, 1));
  engine.reset_statistics();
  const Stopwatch watch;
  for (; engine.has_work(); ++row.steps) step(engine);
  row.seconds = watch.seconds();
  row.ranks = engine.reports();
  return row;
}

BenchRow measure_embed(Engine& engine, const BenchRun& run) {
  BenchRow row{.phase = "embed", .batch = run.batch, .prompt = run.prompt, .tokens = run.prompt * run.batch};
  std::string error;
  for (std::size_t sequence = 0; sequence < run.batch; ++sequence) {
    Request request;
    request.prompt = make_prompt(run.prompt, run.first + sequence, prompt_vocabulary(engine.info()));
    request.max_tokens = 0;
    request.pooling = Pooling::mean;
    engine.submit(std::move(request), [&error](const Event& event) {
      if (const auto* rejected = std::get_if<RequestRejected>(&event)) error = rejected->error;
    });
  }
  engine.reset_statistics();
  const Stopwatch watch;
  for (; engine.has_work(); ++row.steps) engine.step();
  row.seconds = watch.seconds();
  require<RequestError>(error.empty(), "{}", error);
  row.ranks = engine.reports();
  return row;
}

BenchRow measure_decode(Engine& engine, const BenchRun& run) {
  return measure_steps(engine, "decode", run, requests_of(engine, run, run.generate + 1));
}

// Alternates masked and plain runs, so that a change of the machine's speed affects both. Each turn has new
// schemas. Both runs ask for log-probabilities, so every token needs a forward pass.
MaskRows measure_masks(Engine& engine, BenchRun run) {
  constexpr std::size_t kTurns = 7;
  run.sampling.logprobs = 0;
  check_masks(engine, run);
  MaskRows rows;
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    const std::size_t schema = (run.first * kTurns + turn) * run.batch;
    BenchRow plain = measure_decode(engine, run);
    BenchRow masked =
        measure_steps(engine, "masked", run, requests_of(engine, run, run.generate + 1, schema));
    rows.ratios.push_back(step_quantile(masked, 0.5) / step_quantile(plain, 0.5));
    add_turn(std::move(plain), rows.plain);
    add_turn(std::move(masked), rows.masked);
    require_begin(engine.decode(rows.masked.token_ids), schema);
  }
  return rows;
}

namespace {

SpeculationCounts difference(SpeculationCounts after, const SpeculationCounts& before) {
  after.drafts -= before.drafts;
  for (std::size_t i = 0; i < kMaxDraftTokens; ++i) {
    after.drafted[i] -= before.drafted[i];
    after.accepted[i] -= before.accepted[i];
  }
  return after;
}

}  // namespace

ReplayRows measure_replay(Engine& engine, const BenchRun& run, std::span<const RealText* const> texts,
                          ReplayedTexts& replayed) {
  std::vector<Request> requests(run.batch);
  for (std::size_t sequence = 0; sequence < run.batch; ++sequence) {
    const RealText& text = *texts[sequence];
    Request& request = requests[sequence];
    request.prompt = make_prompt(text.prompt.size(), run.first + sequence, prompt_vocabulary(engine.info()));
    request.sampling = run.sampling;
    request.max_tokens = static_cast<int>(text.tokens.size());
    request.ignore_eos = true;
    request.speculate = false;
  }
  std::vector<std::vector<TokenId>> plain;
  std::vector<std::vector<TokenId>> drafted;
  ReplayRows rows;
  rows.plain = measure_steps(engine, "decode", run, requests, &plain);
  for (std::size_t i = 0; i < run.batch; ++i) {
    replayed.add(requests[i].prompt, plain[i], *texts[i]);
    requests[i].speculate = true;
  }
  const SpeculationCounts before = engine.status().speculation;
  rows.drafted = measure_steps(engine, "drafted", run, requests, &drafted);
  rows.drafted.speculation = difference(engine.status().speculation, before);
  require<RequestError>(
      plain == drafted,
      "cannot measure draft tokens: expected the same text with and without them, found different ones, "
      "because steps of more rows round sums differently; use --same-bits, or other --weights");
  return rows;
}

}  // namespace tp

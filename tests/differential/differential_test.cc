// Compares random requests on random engines with one rank that answers one request at a time. The guide
// (tests/README.md) has the table of options, and of what they may change.
//
// CTest runs a few seconds. To run four hours from another seed:
//   TP_DIFFERENTIAL_SECONDS=14400 TP_DIFFERENTIAL_SEED=1000 mpirun -np 5 build/bin/differential_test
#include "parallel/exchange/collectives.h"
#include "parallel/machine/file_text.h"
#include "parallel/machine/stopwatch.h"
#include "tests/differential/random_trial.h"
#include "tests/expect_contains.h"
#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"
#include "tp/mpi.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <regex>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>

namespace tp::differential {
namespace {

constexpr std::size_t kTrialsInCTest = 40;
constexpr std::size_t kTrialsForAllOptions = 4000;

// How much answers may differ, by Effect. Without same_bits, last bits decide between tokens that are almost
// equally likely, and a rounded number may be a whole step off, so some texts differ from some token on.
struct Tolerance {
  double of_number;
  std::size_t answers_per_different_one;
};
constexpr std::array<Tolerance, 3> kTolerances = {{{0.0, 0}, {1e-3, 500}, {0.1, 2}}};

// The events that a request's sink received.
struct Answer {
  // By sample: tokens, each with its log-probability if there is one, and the reason of the end. At -1: all
  // numbers about the prompt.
  std::map<int, std::vector<double>> parts;
  std::size_t tokens = 0;
  std::string error;
  bool cancelled = false;
  bool ended = false;

  void take(const Event& event) {
    const auto add = [&](const auto& numbers) {
      parts[-1].insert(parts[-1].end(), numbers.begin(), numbers.end());
    };
    if (const auto* token = std::get_if<TokenEvent>(&event)) return take_token(*token);
    if (const auto* scores = std::get_if<PromptLogprobs>(&event)) add(scores->logprobs);
    if (const auto* rows = std::get_if<PromptLogits>(&event)) add(rows->logits);
    if (const auto* rows = std::get_if<PromptHidden>(&event)) add(rows->states);
    if (const auto* pooled = std::get_if<PooledHidden>(&event)) add(pooled->state);
    cancelled = std::holds_alternative<RequestCancelled>(event);
    ended = cancelled || std::holds_alternative<RequestFinished>(event);
  }

  // Returns the request's number, or 0 if the engine refuses it.
  RequestId submit_to(Engine& engine, const Request& request) {
    try {
      return engine.submit(request, [this](const Event& event) { take(event); });
    } catch (const RequestError& refusal) {
      error = refusal.what();
      ended = true;
      return 0;
    }
  }

 private:
  void take_token(const TokenEvent& event) {
    if (!event.error.empty()) {
      error = event.error;
      return;
    }
    ++tokens;
    std::vector<double>& values = parts[event.sample];
    values.push_back(event.token);
    if (event.logprob) values.push_back(static_cast<double>(event.logprob->logprob));
    if (event.finish_reason != FinishReason::none) values.push_back(static_cast<double>(event.finish_reason));
  }
};

// Requests arrive and are cancelled between steps while other requests run.
std::vector<Answer> run_together(Engine& engine, const std::vector<TrialRequest>& requests) {
  std::vector<Answer> answers(requests.size());
  std::vector<RequestId> ids(requests.size());
  std::size_t arrived = 0;
  for (std::size_t step = 0; arrived < requests.size() || engine.has_work(); ++step) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].arrives == step) {
        ids[i] = answers[i].submit_to(engine, requests[i].request);
        ++arrived;
      }
      if (requests[i].cancelled_at == step && step > 0 && !answers[i].ended) engine.cancel(ids[i]);
    }
    if (engine.has_work()) engine.step();
  }
  return answers;
}

std::vector<Answer> run_alone(const Trial& trial) {
  Communicator self(MPI_COMM_SELF);
  Engine engine(self, trial.reference);
  std::vector<Answer> answers(trial.requests.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    answers[i].submit_to(engine, trial.requests[i].request);
    while (engine.has_work()) engine.step();
  }
  return answers;
}

// Returns the first difference, or an empty text. A cancelled answer is the beginning of a whole one.
std::string difference(const Answer& found, const Answer& expected, double tolerance) {
  if (found.error != expected.error && !(found.cancelled && found.error.empty()))
    return fmt::format("the error \"{}\", expected \"{}\"", found.error, expected.error);
  if (!found.cancelled && found.parts.size() != expected.parts.size()) return "a different number of texts";
  for (const auto& [sample, values] : found.parts) {
    const auto other = expected.parts.find(sample);
    const std::size_t size = other == expected.parts.end() ? 0 : other->second.size();
    for (std::size_t i = 0; i < std::min(values.size(), size); ++i) {
      const double value = other->second[i];
      const bool is_equal = values[i] == value || (std::isnan(values[i]) && std::isnan(value));
      if (!is_equal && !(std::abs(values[i] - value) <= tolerance))
        return fmt::format("sample {}: value {} is {}, expected {}", sample, i, values[i], value);
    }
    if (values.size() > size || (values.size() < size && !found.cancelled))
      return fmt::format("sample {}: {} values, expected {}", sample, values.size(), size);
  }
  return "";
}

// Repeats the last four tokens.
class Repeats : public DraftSource {
 public:
  std::vector<Draft> draft(std::span<const DraftQuery> queries) override {
    std::vector<Draft> drafts;
    for (const DraftQuery& query : queries) {
      Draft& draft = drafts.emplace_back();
      const std::span<const TokenId> last = query.tokens.last(std::min<std::size_t>(4, query.tokens.size()));
      for (std::size_t i = 0; i < query.max_tokens; ++i) draft.tokens.push_back(last[i % last.size()]);
      draft.chances.resize(draft.tokens.size(), 0.5);
    }
    return drafts;
  }
  void end(std::uint64_t /*sequence*/) override {}
};

// The files that a trial needs, in temporary folders. Sets their paths in its options.
class TrialFiles {
 public:
  TrialFiles(reference::Random& random, const TrialModel& model, bool is_root, Trial& trial) {
    const SpeculationOptions& speculation = trial.options.speculation;
    const bool wants_layer =
        model.may_have_layer() && speculation.model.empty() &&
        (speculation.drafts == DraftKind::mtp || speculation.drafts == DraftKind::automatic);
    const auto has_constraint = [](const TrialRequest& one) { return one.request.constraint.has_value(); };
    const bool wants_letters =
        model.may_have_letters() && std::ranges::any_of(trial.requests, has_constraint);
    std::filesystem::path path = model.path;
    if (wants_layer || wants_letters) {
      reference::Fixture fixture;
      fixture.folder = model.path;
      path = fixture.folder = copy_.emplace(fixture).path();
      if (wants_layer) test::write_checkpoint_with_layer(path, fixture, random.coin());
    }
    if (trial.options.synthetic) path /= "config.json";
    if (!trial.options.adapters.empty()) write_adapter(model);
    for (EngineOptions* options : {&trial.options, &trial.reference}) {
      options->model = path;
      for (AdapterOptions& adapter : options->adapters) adapter.path = adapter_.path();
    }
    if (!trial.options.kv_store.empty()) trial.options.kv_store = is_root ? store_.path() : "";
    if (!trial.options.packed_cache.empty()) trial.options.packed_cache = packed_.path();
  }

 private:
  void write_adapter(const TrialModel& model) const {
    constexpr std::size_t kRank = 2;
    reference::Random random(1);
    std::vector<test::TestTensor> factors;
    const auto add = [&](const std::string& name, std::size_t rows, std::size_t columns) {
      factors.push_back({"base_model.model." + name + ".weight",
                         "F32",
                         {rows, columns},
                         test::bytes_of(random.numbers(rows * columns))});
    };
    for (const auto& [layer, shape] : model.adapted_layers()) {
      add(layer + ".lora_A", kRank, shape.columns);
      add(layer + ".lora_B", shape.rows, kRank);
    }
    adapter_.write("adapter_model.safetensors", test::safetensors_file(factors));
    adapter_.write("adapter_config.json", R"({"peft_type": "LORA", "r": 2, "lora_alpha": 0.1})");
  }

  std::optional<test::ModelFolder> copy_;
  test::TemporaryDirectory adapter_;
  test::TemporaryDirectory store_;
  test::TemporaryDirectory packed_;
};

// Counts of all trials, on rank 0.
struct Totals {
  std::size_t trials = 0;
  std::size_t refused_trials = 0;
  std::size_t answers = 0;
  std::size_t refused_requests = 0;
  std::size_t tokens = 0;    // in compared answers
  std::size_t restored = 0;  // tokens read from stores
  std::size_t drafted_by_layer = 0;
  std::size_t accepted_of_layer = 0;
  std::array<std::size_t, 3> compared{};  // answers, by Effect
  std::array<std::size_t, 3> different{};
  std::map<std::string_view, std::size_t> drawn{};                  // trials that ran, by option
  std::map<std::string_view, std::vector<std::string>> refusals{};  // errors, by option

  // Returns whether the error refuses a drawn option by its name.
  bool add_refusal(const Trial& trial, const std::string& error) {
    const Option* const option = trial.refused_by(error);
    if (option != nullptr) refusals[option->name].push_back(error);
    return option != nullptr;
  }

  void compare(const Trial& trial, Effect effect, const Answer& found, const Answer& expected) {
    EXPECT_TRUE(found.ended && expected.ended) << "a request without an end";
    ++answers;
    if (!found.error.empty() && expected.error.empty() && add_refusal(trial, found.error)) {
      ++refused_requests;
      return;
    }
    tokens += found.tokens;
    const auto index = static_cast<std::size_t>(effect);
    ++compared[index];
    const std::string why = difference(found, expected, kTolerances[index].of_number);
    if (why.empty()) return;
    ++different[index];
    EXPECT_NE(effect, Effect::none) << why;
    if (effect == Effect::last_bits)
      std::printf("the last bits change an answer: %s: %s\n", trial.description.c_str(), why.c_str());
  }

  void check() const {
    for (std::size_t effect = 1; effect < kTolerances.size(); ++effect)
      EXPECT_LE(different[effect], 1 + compared[effect] / kTolerances[effect].answers_per_different_one)
          << "of " << compared[effect] << " answers";
    if (trials < kTrialsInCTest) return;
    EXPECT_GT(tokens, 30 * trials) << "hardly anything was compared";
    EXPECT_LE(2 * refused_trials, trials);
    EXPECT_LE(4 * refused_requests, answers);
    if (trials < kTrialsForAllOptions || test::world().size() == 1) return;
    EXPECT_GT(accepted_of_layer, 0U) << "a layer was never right";
    EXPECT_GT(restored, trials) << "hardly anything was read from stores";
    for (const Option& option : all_options())
      EXPECT_TRUE(option.draw == nullptr || drawn.contains(option.name)) << option.name << " was never drawn";
  }

  void print() const {
    std::printf(
        "%zu trials, %zu refused; %zu answers of %zu tokens, %zu refused, %zu different by last bits, %zu by "
        "rounding; %zu tokens read from stores; %zu of %zu draft tokens of layers were right\n",
        trials, refused_trials, answers, tokens, refused_requests, different[1], different[2], restored,
        accepted_of_layer, drafted_by_layer);
    for (const auto& [option, errors] : refusals)
      std::printf("%zu refused by %s: %s\n", errors.size(), option.data(), errors.front().c_str());
  }
};

// The command that repeats a trial.
std::string command(std::uint64_t seed) {
  return fmt::format("TP_DIFFERENTIAL_SECONDS=0.001 TP_DIFFERENTIAL_SEED={} mpirun -np {} --oversubscribe {}",
                     seed, test::world().size(), std::filesystem::read_symlink("/proc/self/exe").string());
}

// Runs the trial on some of the ranks. Later engines read the folders that the first one wrote.
void run_trial(std::uint64_t seed, Totals& totals) {
  reference::Random random(seed);
  const TrialModel model = random_model(random);
  Trial trial = random_trial(random, model, test::world().size());
  if (test::world().rank() >= trial.ranks) return;
  std::vector<std::size_t> members(trial.ranks);
  std::iota(members.begin(), members.end(), 0);
  Communicator comm(test::world(), members);
  SCOPED_TRACE(command(seed) + "\n" + trial.description);
  const bool has_folder = !trial.options.kv_store.empty() || !trial.options.packed_cache.empty();
  const TrialFiles files(random, model, comm.is_root(), trial);
  const EngineHooks hooks{.draft_source = [] { return std::make_unique<Repeats>(); }};
  std::uint64_t inexact_sums = 0;
  std::vector<std::vector<Answer>> all_answers;
  for (std::size_t engines = has_folder ? 2 : 1; engines > 0; --engines) {
    std::optional<Engine> engine;
    try {
      engine.emplace(comm, trial.options, hooks);
    } catch (const AgreedError& error) {
      if (!comm.is_root()) return;
      ++totals.refused_trials;
      const bool may_refuse = error.kind() == ErrorKind::config || error.kind() == ErrorKind::checkpoint;
      EXPECT_TRUE(may_refuse && totals.add_refusal(trial, error.what())) << error.what();
      return;
    }
    if (!comm.is_root()) {
      engine->follow();
      continue;
    }
    all_answers.push_back(run_together(*engine, trial.requests));
    for (const RankReport& report : engine->reports()) inexact_sums += report.inexact_sums;
    const LeaderStatus status = engine->status();
    totals.restored += status.store.restored_tokens;
    if (trial.options.speculation.drafts != DraftKind::mtp) continue;
    totals.drafted_by_layer += status.speculation.drafted_tokens();
    totals.accepted_of_layer += status.speculation.accepted_tokens();
  }
  if (!comm.is_root()) return;
  for (const Option* option : trial.drawn) ++totals.drawn[option->name];
  std::vector<Answer> expected;
  ASSERT_NO_THROW(expected = run_alone(trial));
  const Effect effect = inexact_sums == 0 ? trial.effect() : std::max(trial.effect(), Effect::last_bits);
  for (const std::vector<Answer>& answers : all_answers) {
    SCOPED_TRACE(&answers == &all_answers.front() ? "the first engine" : "the second engine");
    for (std::size_t i = 0; i < answers.size(); ++i) {
      SCOPED_TRACE(describe(trial.requests[i].request));
      totals.compare(trial, effect, answers[i], expected[i]);
    }
  }
}

double number_of(const char* variable, double fallback) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? fallback : std::stod(value);
}

TEST(Differential, AnEngineMatchesOneRankThatRunsOneRequestAtATime) {
  Communicator& comm = test::world();
  const auto first = static_cast<std::uint64_t>(number_of("TP_DIFFERENTIAL_SEED", 1));
  const double seconds = number_of("TP_DIFFERENTIAL_SECONDS", 0.0);
  const Stopwatch watch;
  Totals totals;
  if (comm.is_root()) std::printf("the first seed is %zu\n", static_cast<std::size_t>(first));
  for (bool goes_on = true; goes_on;) {
    run_trial(first + totals.trials, totals);
    ++totals.trials;
    const bool more = seconds > 0.0 ? watch.seconds() < seconds : totals.trials < kTrialsInCTest;
    goes_on = max_over_ranks(comm, comm.is_root() && more && !HasFailure() ? 1 : 0) != 0;
  }
  if (!comm.is_root()) return;
  totals.print();
  totals.check();
}

std::string text_of(const char* file) {
  return file_text(std::filesystem::path(TP_TEST_DATA) / "../.." / file);
}

TEST(Differential, TheGuideShowsTheTableOfOptions) {
  const std::string table = table_of_options();
  EXPECT_CONTAINS(text_of("tests/README.md"), table);
}

// Expects an option for each field of a struct.
void expect_options(const char* header, const std::string& type, const std::string& prefix) {
  const std::string text = text_of(header);
  const std::size_t begin = text.find("struct " + type + " {");
  const std::string body = text.substr(begin, text.find("operator==", begin) - begin);
  const std::regex field(R"(\n  [A-Za-z][\w:<>, ]* (\w+)(?: =|\{|;))");
  std::size_t fields = 0;
  for (std::sregex_iterator found(body.begin(), body.end(), field), end; found != end; ++found, ++fields) {
    const std::string name = prefix + (*found)[1].str();
    const auto is_named = [&](const Option& option) {
      return option.name == name || option.name.starts_with(name + ".");
    };
    EXPECT_TRUE(std::ranges::any_of(all_options(), is_named)) << "no option " << name;
  }
  EXPECT_GT(fields, 5U);
}

TEST(Differential, EveryOptionOfAnEngineIsInTheTable) {
  expect_options("include/tp/engine_options.h", "EngineOptions", "");
  expect_options("include/tp/speculation.h", "SpeculationOptions", "speculation.");
}

}  // namespace
}  // namespace tp::differential

// Compares random requests on random engines over several ranks with one rank that answers one request at a
// time. In f32, both give the same texts for any chunks, batches, samplers and cache sizes.
//
// CTest runs a few seconds. To run an hour from another seed:
//   TP_DIFFERENTIAL_SECONDS=3600 TP_DIFFERENTIAL_SEED=1000 mpirun -np 3 build/bin/differential_test
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "parallel/exchange/collectives.h"
#include "parallel/machine/stopwatch.h"
#include "tests/differential/random_trial.h"
#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tp/mpi.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>

namespace tp::differential {
namespace {

constexpr std::size_t kTrialsInCTest = 40;

// Families that differ in attention, norms, positions, experts, tied weights, windows and chunks, and
// recurrent layers. If a family's checkpoints may have a multi-token prediction layer, its model has one.
const std::vector<std::string> kModels = {
    "llama-12q3kv",   "gemma2-bf16", "gpt2-6heads",  "qwen2moe",  "gptneox",
    "deepseek3-yarn", "cohere2",     "gptoss-mxfp4", "olmo3",     "gemma3-multimodal-layout",
    "llama4-scout",   "qwen3next",   "qwen35",       "qwen35moe", "lfm2moe",
    "museglimmer",    "falcon-mqa",  "glm52dsa"};
const std::vector<std::string> kModelsWithLayer = {"deepseek3-yarn", "qwen3next", "qwen35", "deepseekv32"};

bool has_recurrent_layers(const ModelSpec& spec) { return std::ranges::any_of(spec.blocks, keeps_state); }

struct Continuation {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  FinishReason reason = FinishReason::none;
};

// The events that a request's sink received.
struct Answer {
  std::map<int, Continuation> continuations;  // by sample
  std::vector<double> prompt_logprobs;
  std::string error;
  bool cancelled = false;
  bool ended = false;

  void take(const Event& event) {
    if (const auto* token = std::get_if<TokenEvent>(&event)) return take_token(*token);
    if (const auto* scores = std::get_if<PromptLogprobs>(&event))
      prompt_logprobs.insert(prompt_logprobs.end(), scores->logprobs.begin(), scores->logprobs.end());
    cancelled = std::holds_alternative<RequestCancelled>(event);
    ended = cancelled || std::holds_alternative<RequestFinished>(event);
  }

 private:
  void take_token(const TokenEvent& event) {
    Continuation& one = continuations[event.sample];
    one.reason = event.finish_reason;
    if (!event.error.empty()) {
      error = event.error;
      return;
    }
    one.tokens.push_back(event.token);
    if (event.logprob) one.logprobs.push_back(event.logprob->logprob);
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
        ids[i] =
            engine.submit(requests[i].request, [&answers, i](const Event& event) { answers[i].take(event); });
        ++arrived;
      }
      if (requests[i].cancelled_at == step && step > 0) engine.cancel(ids[i]);
    }
    if (engine.has_work()) engine.step();
  }
  return answers;
}

std::vector<Answer> run_alone(const EngineOptions& options, const std::vector<TrialRequest>& requests) {
  Communicator self(MPI_COMM_SELF);
  Engine engine(self, {.model = options.model,
                       .weights = options.weights,
                       .kv_type = options.kv_type,
                       .same_bits = options.same_bits,
                       .max_sequences = 1,
                       .max_length = options.max_length,
                       .threads = 1});
  std::vector<Answer> answers(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    engine.submit(requests[i].request, [&answers, i](const Event& event) { answers[i].take(event); });
    while (engine.has_work()) engine.step();
  }
  return answers;
}

void expect_same(const Continuation& found, const Continuation& expected, bool cancelled) {
  std::vector<TokenId> tokens = expected.tokens;
  if (cancelled) tokens.resize(std::min(tokens.size(), found.tokens.size()));
  ASSERT_EQ(found.tokens, tokens);
  if (!cancelled) {
    EXPECT_EQ(found.reason, expected.reason);
  }
  for (std::size_t i = 0; i < found.logprobs.size(); ++i)
    EXPECT_NEAR(found.logprobs[i], expected.logprobs[i], 1e-3);
}

std::size_t expect_same(const Answer& found, const Answer& expected) {
  EXPECT_TRUE(found.ended && expected.ended) << "a request without an end";
  EXPECT_EQ(found.error, expected.error);
  if (!found.cancelled) {
    EXPECT_EQ(found.continuations.size(), expected.continuations.size());
    EXPECT_EQ(found.prompt_logprobs.size(), expected.prompt_logprobs.size());
  }
  for (std::size_t i = 0; i < std::min(found.prompt_logprobs.size(), expected.prompt_logprobs.size()); ++i)
    EXPECT_NEAR(found.prompt_logprobs[i], expected.prompt_logprobs[i], 1e-3);
  std::size_t tokens = 0;
  for (const auto& [sample, continuation] : found.continuations) {
    expect_same(continuation, expected.continuations.at(sample), found.cancelled);
    tokens += continuation.tokens.size();
  }
  return tokens;
}

// Counts of all trials, to check that they tested something.
struct Comparison {
  std::size_t tokens = 0;
  std::size_t restored = 0;  // tokens read from stores
  std::size_t drafted_by_layer = 0;
  std::size_t accepted_of_layer = 0;

  Comparison& operator+=(const Comparison& more) {
    tokens += more.tokens;
    restored += more.restored;
    drafted_by_layer += more.drafted_by_layer;
    accepted_of_layer += more.accepted_of_layer;
    return *this;
  }
};

Comparison run_trial(Communicator& comm, std::uint64_t seed) {
  reference::Random random(seed);
  DraftChoice choice;
  choice.layer = random.integer(0, 6) == 0;
  const std::vector<std::string>& models = choice.layer ? kModelsWithLayer : kModels;
  const reference::Fixture fixture = reference::fixture(models[random.integer(0, models.size() - 1)]);
  const ModelSpec spec = make_spec(load_config(fixture.folder));
  const bool has_states = has_recurrent_layers(spec);
  choice.itself = !has_states;
  Trial trial = random_trial(random, fixture.rows.columns(), choice);
  EngineOptions& options = trial.options;
  options.model = fixture.folder;
  const test::TemporaryDirectory with_layer;
  if (choice.layer) {
    options.model = with_layer.path();
    test::write_checkpoint_with_layer(options.model, fixture, random.coin());
  }
  const DraftKind kind = options.speculation.drafts;
  if (kind == DraftKind::model || (kind == DraftKind::automatic && !choice.layer))
    options.speculation.model = options.model;
  // In recurrent layers, a difference in the last bit of a weight or a sum grows a hundredfold in the logits.
  // In indexers, it may choose a different position.
  options.same_bits = has_states || max_chosen(spec) != 0;
  const test::TemporaryDirectory store;
  if (trial.stores && comm.is_root()) options.kv_store = store.path();
  Comparison compared;
  std::vector<std::vector<Answer>> all_answers;  // answers of engines with the same store
  for (std::size_t engines = trial.stores ? 2 : 1; engines > 0; --engines) {
    Engine engine(comm, options);
    if (!comm.is_root()) {
      engine.follow();
      continue;
    }
    all_answers.push_back(run_together(engine, trial.requests));
    const LeaderStatus status = engine.status();
    compared.restored += status.store.restored_tokens;
    if (kind != DraftKind::mtp) continue;
    compared.drafted_by_layer += status.speculation.drafted_tokens();
    compared.accepted_of_layer += status.speculation.accepted_tokens();
  }
  if (!comm.is_root()) return {};
  SCOPED_TRACE("TP_DIFFERENTIAL_SEED=" + std::to_string(seed) + ": " + fixture.name + ", " +
               describe(options));
  const std::vector<Answer> expected = run_alone(options, trial.requests);
  for (const std::vector<Answer>& answers : all_answers) {
    SCOPED_TRACE(&answers == &all_answers.front() ? "the first engine" : "an engine that reads the store");
    for (std::size_t i = 0; i < answers.size(); ++i) {
      SCOPED_TRACE(describe(trial.requests[i].request));
      compared.tokens += expect_same(answers[i], expected[i]);
    }
  }
  return compared;
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
  Comparison all;
  std::size_t trials = 0;
  for (std::size_t go_on = 1; go_on != 0; ++trials) {
    all += run_trial(comm, first + trials);
    const bool more = seconds > 0.0 ? watch.seconds() < seconds : trials + 1 < kTrialsInCTest;
    go_on = max_over_ranks(comm, comm.is_root() && more && !HasFailure() ? 1 : 0);
  }
  if (!comm.is_root()) return;
  EXPECT_GT(all.tokens, 100 * trials) << "hardly anything was compared";
  if (trials >= kTrialsInCTest) {
    EXPECT_GT(all.accepted_of_layer, 0U) << "a layer was never right";
    EXPECT_GT(all.restored, 100U) << "hardly anything was read from stores";
  }
  std::printf(
      "compared %zu tokens in %zu trials; read %zu from stores; %zu of %zu guesses of layers were right\n",
      all.tokens, trials, all.restored, all.accepted_of_layer, all.drafted_by_layer);
}

}  // namespace
}  // namespace tp::differential

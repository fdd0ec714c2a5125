// Steps as two alternating half-batches: EngineOptions::two_batch_overlap changes only the times of sums over
// ranks.
#include "parallel/exchange/tracer.h"
#include "tests/error_of.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"
#include "tp/error.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::Continuation;
using test::Continuations;
using test::greedy_request;
using test::run_all;
using test::run_engine;

// Prompts of several chunks and of a few tokens, so a step computes parts of some and generates for others.
// Sampling uses penalties and log-probabilities.
std::vector<Request> requests_of(const Fixture& fixture) {
  std::vector<Request> requests;
  for (const std::size_t length : {3U, 90U, 40U, 150U, 17U}) {
    Request& request =
        requests.emplace_back(greedy_request(test::varied_prompt(fixture.prompt, length, length % 5), 6));
    request.sampling.logprobs = 2;
    if (length % 10 != 0) continue;
    request.sampling.temperature = 0.8F;
    request.sampling.repetition_penalty = 1.1F;
    request.sampling.seed = length;
    request.score_from = 1;
  }
  return requests;
}

struct Results {
  Continuations texts;
  std::vector<double> scores;
};

Results results_of(Engine& engine, const Fixture& fixture) {
  Results results;
  for (const Request& request : requests_of(fixture)) engine.submit(request);
  results.texts = run_all(engine);
  results.scores = engine.logprobs(fixture.prompt);
  return results;
}

// The models: a plain decoder, experts, recurrent layers with experts, windows shorter than the prompts with
// norms inside attention that need sums over ranks of their own, short convolutions, pools of positions that
// begin in the other half, hash tables, and connections that lag.
TEST(EngineOverlap, GivesTheSameBitsAsWholeSteps) {
  Communicator& comm = test::world();
  for (const char* const model : {"llama-gqa", "qwen2moe", "qwen3next", "olmo3", "lfm2", "granite4h",
                                  "kimilinear", "glm5next", "qwen4exp", "deepseekv4", "deepseekv41"}) {
    const Fixture fixture = reference::fixture(model);
    std::vector<Results> results;
    for (const TwoBatchOverlap mode : {TwoBatchOverlap::off, TwoBatchOverlap::on}) {
      const EngineOptions options{.model = fixture.folder,
                                  .weights = WeightType::f32,
                                  .same_bits = true,
                                  .two_batch_overlap = mode,
                                  .prefill_chunk = 64};
      run_engine(comm, options, [&](Engine& engine) { results.push_back(results_of(engine, fixture)); });
    }
    if (!comm.is_root()) continue;
    ASSERT_EQ(results[1].texts.size(), results[0].texts.size());
    for (const auto& [id, whole] : results[0].texts) {
      const Continuation& halves = results[1].texts[id];
      EXPECT_EQ(halves.tokens, whole.tokens) << model;
      EXPECT_EQ(halves.logprobs, whole.logprobs) << model;
    }
    EXPECT_EQ(results[1].scores, results[0].scores) << model;
  }
}

// The expected greedy tokens are the original modelling code's. Steps have one sequence, and sums are
// float32.
TEST(EngineOverlap, MatchesTheModelsOwnCode) {
  Communicator& comm = test::world();
  for (const char* const model : {"llama-gqa", "qwen3next"}) {
    const Fixture fixture = reference::fixture(model);
    const EngineOptions options{.model = fixture.folder,
                                .weights = WeightType::f32,
                                .two_batch_overlap = TwoBatchOverlap::on,
                                .prefill_chunk = 24};
    run_engine(comm, options, [&](Engine& engine) {
      EXPECT_EQ(test::run_alone(engine, greedy_request(fixture.prompt, 16)).tokens, fixture.greedy) << model;
    });
  }
}

std::size_t sums_in_background(const RankTrace& trace) {
  return static_cast<std::size_t>(std::ranges::count_if(trace.events, [](const TraceEvent& event) {
    return event.activity == Activity::overlapped_all_reduce;
  }));
}

// Each half has two sums per block and one for the embedding. A step of one token has none in the background.
TEST(EngineOverlap, HasAllSumsOfAStepInTheBackground) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  for (const TwoBatchOverlap mode : {TwoBatchOverlap::off, TwoBatchOverlap::on, TwoBatchOverlap::automatic}) {
    const EngineOptions options{.model = fixture.folder, .two_batch_overlap = mode};
    run_engine(comm, options, [&](Engine& engine) {
      engine.start_trace();
      test::run_alone(engine, greedy_request(fixture.prompt, 2));
      const std::size_t layers = engine.info().config.num_hidden_layers;
      const std::vector<RankTrace> traces = engine.traces();
      ASSERT_EQ(traces.size(), comm.size());
      for (const RankTrace& trace : traces) {
        // On one host, no sum uses a wire.
        EXPECT_EQ(sums_in_background(trace), mode == TwoBatchOverlap::on ? 2 * (2 * layers + 1) : 0U);
      }
    });
  }
}

TEST(EngineOverlap, IsCountedAmongTheMemoryOfTheWorkspace) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  std::vector<std::size_t> bytes;
  for (const TwoBatchOverlap mode : {TwoBatchOverlap::automatic, TwoBatchOverlap::off, TwoBatchOverlap::on}) {
    const EngineOptions options{.model = fixture.folder, .two_batch_overlap = mode, .prefill_chunk = 40};
    run_engine(comm, options, [&](Engine& engine) { bytes.push_back(engine.info().workspace_bytes); });
  }
  if (!comm.is_root()) return;
  EXPECT_EQ(bytes[0], bytes[1]) << "one host has no use for it";
  EXPECT_GT(bytes[2], bytes[1]);
}

TEST(EngineOverlap, IsRejectedIfStepsCannotBeDivided) {
  Communicator& comm = test::world();
  if (comm.size() % 2 != 0) GTEST_SKIP() << "needs two stages";
  const Fixture fixture = reference::fixture("llama-gqa");
  const EngineOptions options{
      .model = fixture.folder, .two_batch_overlap = TwoBatchOverlap::on, .pipeline = 2};
  EXPECT_EQ(test::error_of<AgreedError>([&] { const Engine engine(comm, options); }),
            "cannot divide steps in two: `two_batch_overlap` on needs a model that generates one token after "
            "the other, in one pipeline stage, found LlamaForCausalLM in 2; leave it out");
}

}  // namespace
}  // namespace tp

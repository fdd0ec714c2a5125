// Engines whose ranks are pipeline stages: with same_bits, all results match one rank's, and several steps
// run at the same time.
#include "model/config/config.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/mpi_test.h"
#include "tests/reference/random.h"
#include "tests/runtime/engine/engine_run.h"
#include "tp/mpi.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::all_logits;
using test::answers_to;
using test::Continuations;
using test::run_all;

// Returns all numbers of stages that divide the ranks and the layers.
std::vector<std::size_t> stage_counts(const Communicator& comm, std::size_t layers) {
  std::vector<std::size_t> counts;
  for (std::size_t stages = 1; stages <= layers; ++stages) {
    if (comm.size() % stages == 0) counts.push_back(stages);
  }
  return counts;
}

Request pipelined_request(std::vector<TokenId> prompt, std::uint64_t seed) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = 12;
  request.ignore_eos = true;
  request.sampling.seed = seed;
  request.sampling.top_p = 0.95F;
  request.sampling.logprobs = 2;
  request.sampling.repetition_penalty = 1.1F;
  return request;
}

// Returns short and long prompts, a request with several samples, and a request with token masks.
std::vector<Request> requests_of_all_kinds(const Fixture& fixture) {
  reference::Random random(11);
  const std::size_t vocab_size = fixture.rows.columns();
  std::vector<Request> requests = {pipelined_request(fixture.prompt, 1)};
  for (std::uint64_t i = 0; i < 7; ++i) {
    std::vector<TokenId> prompt(random.integer(1, 60));
    for (TokenId& token : prompt) token = static_cast<TokenId>(random.integer(2, 250) % vocab_size);
    requests.push_back(pipelined_request(std::move(prompt), 100 + i));
  }
  requests[3].n = 3;
  requests[5].allowed_tokens = [vocab_size](std::span<const TokenId> generated) {
    TokenMask mask(vocab_size);
    mask.add(static_cast<TokenId>(10 + generated.size()));
    mask.add(static_cast<TokenId>(20 + generated.size()));
    return mask;
  };
  return requests;
}

void expect_same_answers(const Continuations& found, const Continuations& expected) {
  ASSERT_EQ(found.size(), expected.size());
  auto other = expected.begin();
  for (const auto& [key, one] : found) {
    EXPECT_EQ(one.tokens, other->second.tokens) << key.first << "/" << key.second;
    EXPECT_EQ(one.logprobs, other->second.logprobs) << key.first << "/" << key.second;
    EXPECT_EQ(one.error, "");
    ++other;
  }
}

TEST(EnginePipeline, HasTheBitsOfOneRank) {
  Communicator& comm = test::world();
  for (const char* name : {"llama-gqa", "qwen2moe", "deepseek3-yarn", "gemma4", "glm52dsa", "glm5next",
                           "deepseekv4", "hyv4", "kimik3", "qwen4exp"}) {
    const Fixture fixture = reference::fixture(name);
    const std::vector<Request> requests = requests_of_all_kinds(fixture);
    EngineOptions options{.model = fixture.folder, .same_bits = true, .block_size = 8};
    Continuations expected;
    std::vector<float> logits;
    std::vector<double> scores;
    const std::size_t layers = load_config(fixture.folder).num_hidden_layers;
    if (comm.is_root()) {
      Communicator self(MPI_COMM_SELF);
      test::run_engine(self, options, [&](Engine& engine) {
        expected = answers_to(engine, requests);
        logits = all_logits(engine, fixture.prompt);
        scores = engine.logprobs(fixture.prompt);
      });
    }
    for (const std::size_t stages : stage_counts(comm, layers)) {
      SCOPED_TRACE(testing::Message() << name << ", " << stages << " stages");
      options.pipeline = stages;
      for (const std::size_t chunk : {512, 7}) {
        options.prefill_chunk = chunk;
        test::run_engine(comm, options, [&](Engine& engine) {
          expect_same_answers(answers_to(engine, requests), expected);
          EXPECT_EQ(all_logits(engine, fixture.prompt), logits);
          EXPECT_EQ(engine.logprobs(fixture.prompt), scores);
        });
      }
    }
  }
}

TEST(EnginePipeline, PreemptsAndCancelsWhileStepsAreUnderWay) {
  Communicator& comm = test::world();
  if (comm.size() % 2 != 0) GTEST_SKIP() << "stages of equally many ranks";
  const Fixture fixture = reference::fixture("llama-gqa");
  const std::vector<Request> requests = requests_of_all_kinds(fixture);
  EngineOptions options{.model = fixture.folder, .same_bits = true, .block_size = 8};
  Continuations expected;
  if (comm.is_root()) {
    Communicator self(MPI_COMM_SELF);
    test::run_engine(self, options, [&](Engine& engine) { expected = answers_to(engine, requests); });
  }
  options.pipeline = 2;
  options.cache_tokens = 160;
  test::run_engine(comm, options, [&](Engine& engine) {
    expect_same_answers(answers_to(engine, requests), expected);
    EXPECT_GT(engine.status().preemptions, 0U) << "the test proves nothing";
    const RequestId id = engine.submit(pipelined_request(fixture.prompt, 3));
    engine.step();
    engine.cancel(id);
    run_all(engine);
    EXPECT_EQ(engine.status().finished.cancelled, 1U);
    EXPECT_EQ(engine.status().used_blocks + engine.status().free_blocks, 160U / 8);
  });
}

TEST(EnginePipeline, KeepsEveryStageBusyWithAPartOfTheBatch) {
  Communicator& comm = test::world();
  if (comm.size() % 2 != 0) GTEST_SKIP() << "stages of equally many ranks";
  const Fixture fixture = reference::fixture("llama-gqa");
  test::run_engine(comm, {.model = fixture.folder, .pipeline = 2}, [&](Engine& engine) {
    for (std::uint64_t i = 0; i < 8; ++i)
      engine.submit(test::greedy_request({5, 6, static_cast<TokenId>(7 + i)}, 40));
    for (int i = 0; i < 20; ++i) engine.step();
    EXPECT_EQ(engine.status().last_step_tokens, 4U) << "of 8 sequences";
    run_all(engine);
  });
}

TEST(EnginePipeline, EndsWithAStepUnderWay) {
  Communicator& comm = test::world();
  if (comm.size() % 2 != 0) GTEST_SKIP() << "stages of equally many ranks";
  const Fixture fixture = reference::fixture("llama-gqa");
  const int status = test::run_engine(comm, {.model = fixture.folder, .prefill_chunk = 4, .pipeline = 2},
                                      [&](Engine& engine) {
                                        engine.submit(test::greedy_request(fixture.prompt, 40));
                                        engine.step();
                                      });
  EXPECT_EQ(status, 0);
}

TEST(EnginePipeline, ReportsOnEveryRank) {
  Communicator& comm = test::world();
  if (comm.size() % 2 != 0) GTEST_SKIP() << "stages of equally many ranks";
  const Fixture fixture = reference::fixture("llama-gqa");
  test::run_engine(comm, {.model = fixture.folder, .pipeline = 2}, [&](Engine& engine) {
    test::run_alone(engine, test::greedy_request(fixture.prompt, 5));
    const std::vector<RankReport> reports = engine.reports();
    ASSERT_EQ(reports.size(), comm.size());
    for (const RankReport& report : reports) {
      EXPECT_EQ(report.steps, 5U);
      EXPECT_GT(report.weight_bytes, 0U);
    }
  });
}

TEST(EnginePipeline, RefusesStagesThatCannotBe) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  const auto error = [&](std::size_t stages) {
    return test::error_of<AgreedError>(
        [&] { Engine engine(comm, {.model = fixture.folder, .threads = 1, .pipeline = stages}); });
  };
  EXPECT_CONTAINS(error(comm.size() + 1), "`pipeline` must divide the ranks evenly");
  if (comm.size() > 2) {
    EXPECT_CONTAINS(error(comm.size()), "`pipeline` must be at most the 2 layers");
  }
}

}  // namespace
}  // namespace tp

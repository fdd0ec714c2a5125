// With EngineOptions::same_bits, tokens and log-probabilities have the same bits on any number of ranks, in
// any batch and schedule.
#include "tests/mpi_test.h"
#include "tests/reference/random.h"
#include "tests/runtime/engine/engine_run.h"
#include "tp/mpi.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::Continuation;
using test::run_all;

std::vector<TokenId> random_prompt(reference::Random& random, std::size_t size) {
  std::vector<TokenId> prompt(size);
  for (TokenId& token : prompt) token = static_cast<TokenId>(random.integer(2, 250));
  return prompt;
}

Request sampled(std::vector<TokenId> prompt, std::uint64_t seed) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = 20;
  request.ignore_eos = true;
  request.sampling.seed = seed;
  request.sampling.top_p = 0.95F;
  request.sampling.logprobs = 3;
  return request;
}

std::vector<Request> requests_of(const Fixture& fixture) {
  reference::Random random(5);
  std::vector<Request> requests = {sampled(fixture.prompt, 1)};
  for (std::uint64_t i = 0; i < 15; ++i)
    requests.push_back(sampled(random_prompt(random, random.integer(1, 40)), 100 + i));
  return requests;
}

// Returns the first request's text, run by itself or together with the others.
Continuation first_of(Engine& engine, const std::vector<Request>& requests, bool alone) {
  const RequestId id = engine.submit(requests.front());
  for (std::size_t i = 1; i < requests.size() && !alone; ++i) engine.submit(requests[i]);
  return run_all(engine).at({id, 0});
}

void expect_same(const Continuation& found, const Continuation& expected, const char* how) {
  EXPECT_EQ(found.tokens, expected.tokens) << how;
  EXPECT_EQ(found.logprobs, expected.logprobs) << how;
  ASSERT_EQ(found.top_logprobs.size(), expected.top_logprobs.size()) << how;
  for (std::size_t i = 0; i < expected.top_logprobs.size(); ++i) {
    for (std::size_t j = 0; j < expected.top_logprobs[i].size(); ++j) {
      EXPECT_EQ(found.top_logprobs[i][j].id, expected.top_logprobs[i][j].id) << how;
      EXPECT_EQ(found.top_logprobs[i][j].logprob, expected.top_logprobs[i][j].logprob) << how;
    }
  }
}

TEST(EngineSameBits, HoldForTextsAndLogProbabilitiesOnAnyRanksAndInAnyBatch) {
  Communicator& comm = test::world();
  for (const char* name : {"llama-gqa", "qwen2moe", "deepseek3-yarn", "minimaxm2"}) {
    const Fixture fixture = reference::fixture(name);
    const std::vector<Request> requests = requests_of(fixture);
    for (const WeightType type : {WeightType::f32, WeightType::int8}) {
      SCOPED_TRACE(testing::Message() << name << ", " << name_of(type));
      EngineOptions options{.model = fixture.folder, .weights = type, .same_bits = true, .block_size = 8};
      Continuation expected;
      std::vector<double> scores;
      if (comm.is_root()) {
        Communicator self(MPI_COMM_SELF);
        test::run_engine(self, options, [&](Engine& engine) {
          expected = first_of(engine, requests, true);
          scores = engine.logprobs(fixture.prompt);
        });
      }
      options.prefill_chunk = 7;
      test::run_engine(comm, options, [&](Engine& engine) {
        EXPECT_TRUE(engine.info().options.same_bits);
        EXPECT_EQ(engine.logprobs(fixture.prompt), scores);
        expect_same(first_of(engine, requests, true), expected, "alone");
        expect_same(first_of(engine, requests, true), expected, "with its prefix in the cache");
        expect_same(first_of(engine, requests, false), expected, "beside 15 others");
        for (const RankReport& report : engine.reports()) EXPECT_EQ(report.inexact_sums, 0U);
      });
      options.split.assign(comm.size(), 1.0);
      options.split.front() = 1.7;
      test::run_engine(comm, options, [&](Engine& engine) {
        expect_same(first_of(engine, requests, false), expected, "in uneven shares");
      });
      options.cache_tokens = 160;
      test::run_engine(comm, options, [&](Engine& engine) {
        expect_same(first_of(engine, requests, false), expected, "in a small cache");
        EXPECT_GT(engine.status().preemptions, 0U) << "the test proves nothing";
      });
    }
  }
}

}  // namespace
}  // namespace tp

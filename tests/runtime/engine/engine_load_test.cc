// The engine under load, on any number of ranks.
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::Continuations;
using test::greedy_request;
using test::run_engine;

TEST(Engine, SleepsUntilAnotherThreadSubmits) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder}, [&](Engine& engine) {
    EXPECT_FALSE(engine.wait_for_work(std::chrono::nanoseconds(1)));
    bool finished = false;
    std::thread client([&] {
      engine.submit(greedy_request(fixture.prompt, 4), [&](const Event& event) {
        finished = finished || std::holds_alternative<RequestFinished>(event);
      });
      engine.wake();
    });
    EXPECT_TRUE(engine.wait_for_work(std::chrono::hours(1)));
    client.join();
    while (engine.has_work()) engine.step();
    EXPECT_TRUE(finished);
    const LeaderStatus status = engine.status();
    EXPECT_EQ(status.finished.length, 1U);
    EXPECT_EQ(status.generated_tokens, 4U);
    EXPECT_EQ(status.computed_prompt_tokens, fixture.prompt.size());
    EXPECT_GT(status.last_step_seconds, 0.0);
    EXPECT_GT(status.prefill_tokens_per_second, 0.0);
    EXPECT_GT(status.decode_tokens_per_second, 0.0);
  });
}

// The time limit leads to any chunks. All arithmetic is in f32.
TEST(Engine, GivesTheSameTokensForAnyStepTimeLimit) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  const EngineOptions options = {
      .model = fixture.folder, .cache_tokens = 400, .step_time = std::chrono::microseconds(1)};
  run_engine(comm, options, [&](Engine& engine) {
    const std::uint64_t first = engine.submit(greedy_request(fixture.prompt, 16));
    Continuations all;
    const auto collect = [&](const std::vector<TokenEvent>& events) {
      for (const TokenEvent& event : events) test::collect(event, all);
    };
    collect(engine.step());
    Request salted = greedy_request(fixture.prompt, 16);
    salted.cache_salt = "another user";
    const std::uint64_t second = engine.submit(salted);
    salted.priority = -1;
    salted.cache_salt = "urgent";
    const std::uint64_t third = engine.submit(salted);
    collect(engine.step());
    EXPECT_EQ(engine.status().last_step_tokens, 1U + 16) << "the least while one generates";
    while (engine.has_work()) collect(engine.step());
    for (const std::uint64_t id : {first, second, third}) {
      EXPECT_EQ((all[{id, 0}].tokens), fixture.greedy);
      EXPECT_EQ((all[{id, 0}].cached_tokens), 0U);
    }
  });
}

}  // namespace
}  // namespace tp

// The queue: limits, counting, cancellation, and the engine's sleep while the queue is empty.
#include "runtime/scheduling/leader.h"
#include "tests/error_of.h"
#include "tests/reference/random.h"
#include "tests/runtime/scheduling/leader_run.h"
#include "tp/error.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::continuation;
using test::expect_all_free;
using test::LeaderRun;
using test::limits_of;
using test::prompt_of;
using test::with_queue;

constexpr std::chrono::hours kLong{1};

TEST(LeaderQueue, AcceptsRequestsThatCanBeginAtOnceInAdditionToTheQueue) {
  LeaderRun run(64, 4, with_queue(limits_of(64, 8), 1, 4));
  EXPECT_EQ(run.leader.status().queue_room, 9U);
  EXPECT_EQ(run.leader.status().max_queued, 9U);
  for (TokenId i = 0; i < 9; ++i) run.add(prompt_of(4, 20 * i), 1);
  EXPECT_EQ(run.leader.status().queue_room, 0U);
  EXPECT_THROW(run.add(prompt_of(4, 200), 1), OverloadedError);
  run.run();
  EXPECT_EQ(run.leader.status().finished.length, 9U);
  EXPECT_EQ(run.leader.status().queue_room, 9U);
}

TEST(LeaderQueue, RefusesMoreRequestsThanMayWait) {
  LeaderRun run(64, 4, with_queue(limits_of(16, 1), 2));
  const RequestId first = run.add(prompt_of(4), 3, 5);  // counts as one request despite its 5 samples
  run.step();                                           // the first request begins
  run.add(prompt_of(4, 20), 3);
  EXPECT_EQ(run.leader.status().queued_requests, 1U);
  const RequestId third = run.add(prompt_of(4, 40), 3);
  try {
    run.add(prompt_of(4, 60), 3);
    ADD_FAILURE() << "accepted";
  } catch (const OverloadedError& error) {
    EXPECT_STREQ(
        error.what(),
        "cannot queue the request: 2 requests wait already, of at most 2; try again in about 1 s, or "
        "raise `max_queue`");
    EXPECT_EQ(error.kind(), ErrorKind::overloaded);
    EXPECT_EQ(error.retry_after_seconds(), 1.0);
  }
  run.leader.cancel(third);
  run.step();
  EXPECT_EQ(run.leader.status().queued_requests, 1U);
  run.run();
  EXPECT_EQ(run.received[first].reasons.size(), 5U);
  EXPECT_EQ(run.leader.status().queued_requests, 0U);
  EXPECT_EQ(run.leader.status().queued_prompt_tokens, 0U);
}

TEST(LeaderQueue, RefusesMorePromptTokensThanMayWait) {
  LeaderRun run(64, 4, with_queue(limits_of(16, 1), 0, 10));
  run.add(prompt_of(6), 3);
  run.step();
  run.add(prompt_of(4, 20), 3);
  run.add(prompt_of(6, 40), 3);
  const std::string error = test::error_of<OverloadedError>([&] { run.add(prompt_of(1, 60), 3); });
  EXPECT_TRUE(error.starts_with("cannot queue the request: 10 prompt tokens wait already, of at most 10;"))
      << error;
  EXPECT_EQ(run.leader.status().queued_prompt_tokens, 10U);
  run.run();
  const RequestId longest = run.add(prompt_of(20), 3);     // begins immediately
  const RequestId longer = run.add(prompt_of(11, 40), 3);  // the only waiting prompt
  EXPECT_THROW(run.add(prompt_of(1, 60), 3), OverloadedError);
  run.run();
  EXPECT_EQ(run.received[longest].tokens[0], continuation(prompt_of(20), 3));
  EXPECT_EQ(run.received[longer].tokens[0], continuation(prompt_of(11, 40), 3));
}

TEST(LeaderQueue, DoesNotCountPromptTokensOfRequestsThatCanBeginAtOnce) {
  LeaderRun run(64, 4, with_queue(limits_of(256, 4), 0, 10));
  run.add(prompt_of(9), 3);
  run.step();
  for (TokenId i = 1; i < 4; ++i) run.add(prompt_of(9, 20 * i), 3);
  for (TokenId i = 4; i < 6; ++i) run.add(prompt_of(5, 20 * i), 3);
  EXPECT_THROW(run.add(prompt_of(1, 150), 3), OverloadedError);
  run.step();
  EXPECT_EQ(run.leader.status().queued_requests, 2U);
  EXPECT_THROW(run.add(prompt_of(1, 150), 3), OverloadedError);
  run.run();
  EXPECT_EQ(run.leader.status().finished.length, 6U);
}

TEST(LeaderQueue, CountsPromptTokensOfRequestsThatMemoryHoldsBack) {
  LeaderRun run(8, 4, with_queue(limits_of(16, 4), 0, 10));
  run.add(prompt_of(20), 4);
  run.add(prompt_of(20, 50), 4);
  while (run.leader.status().running == 0) run.step();
  ASSERT_EQ(run.leader.status().running, 1U);
  ASSERT_EQ(run.leader.status().queued_requests, 1U);
  for (TokenId i = 0; i < 2; ++i) run.add(prompt_of(9, 100 + 20 * i), 1);
  run.add(prompt_of(9, 140), 1);
  EXPECT_THROW(run.add(prompt_of(1, 160), 1), OverloadedError);
  run.run();
}

TEST(LeaderQueue, DoesNotCountAPreemptedRequestAgain) {
  LeaderRun run(6, 4, with_queue(limits_of(16, 4), 2));
  run.add(prompt_of(4, 0), 11);
  run.add(prompt_of(4, 50), 11);
  while (run.leader.status().preemptions == 0) {
    ASSERT_LT(run.steps, 100U);
    run.step();
  }
  EXPECT_EQ(run.leader.status().queued, 1U);
  EXPECT_EQ(run.leader.status().queued_requests, 0U);
  run.run();
}

TEST(LeaderQueue, NeverExceedsItsLimitWithManyThreads) {
  constexpr std::size_t kMax = 7 + 8;  // 7 requests that wait, and 8 that can begin at once
  LeaderRun run(256, 4, with_queue(limits_of(16, 8), 7));
  std::atomic<std::size_t> accepted{0};
  std::vector<std::thread> threads;
  for (TokenId thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (TokenId i = 0; i < 200; ++i) {
        Request request;
        request.prompt = prompt_of(5, 10 * thread + i);
        request.max_tokens = 1;
        try {
          run.leader.submit(std::move(request), {});
          ++accepted;
        } catch (const OverloadedError&) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(accepted, kMax) << "nothing has begun meanwhile";
  EXPECT_EQ(run.leader.status().queued_requests, kMax);
  run.run();
  EXPECT_EQ(run.leader.status().finished.length, kMax);
}

TEST(LeaderQueue, EstimatesWhenToTryAgainFromMeasuredRates) {
  LeaderRun run(1000, 4, with_queue(limits_of(100, 1), 2));
  run.seconds_of = [](const PlannedStep& step) {
    return 0.1 * static_cast<double>(step.prompt_tokens) + 0.5 * static_cast<double>(step.decoding);
  };
  run.add(prompt_of(100), 21);
  run.run();
  LeaderStatus status = run.leader.status();
  EXPECT_NEAR(status.prefill_tokens_per_second, 10.0, 1e-9);
  EXPECT_NEAR(status.decode_tokens_per_second, 2.0, 1e-9);
  EXPECT_EQ(status.retry_after_seconds, 1.0) << "nothing waits";
  EXPECT_NEAR(status.last_step_seconds, 0.5, 1e-9);
  for (TokenId i = 0; i < 3; ++i) run.add(prompt_of(50, 10 * i), 100);
  status = run.leader.status();
  EXPECT_EQ(status.queued_prompt_tokens, 150U);
  // 15 s for 150 prompt tokens, and 31.5 s for 21 tokens each of 3 requests, the length of the last answer.
  EXPECT_NEAR(status.retry_after_seconds, 15.0 + 31.5, 1e-6);
  try {
    run.add(prompt_of(4), 1);
    ADD_FAILURE() << "accepted";
  } catch (const OverloadedError& error) {
    EXPECT_NEAR(error.retry_after_seconds(), 46.5, 1e-6);
  }
}

TEST(LeaderQueue, CountsFinishedRequests) {
  LeaderRun run(64, 4, limits_of(16, 4));
  run.seconds_of = [](const PlannedStep&) { return 0.25; };
  run.add(prompt_of(10), 3, 2);
  Request stopping;
  stopping.prompt = prompt_of(6, 50);
  stopping.max_tokens = 8;
  stopping.stop_token_ids = {continuation(stopping.prompt, 1)[0]};
  run.add(stopping);
  run.step();
  LeaderStatus status = run.leader.status();
  EXPECT_EQ(status.prompt_tokens, 16U);
  EXPECT_EQ(status.prefilling + status.decoding, status.running);
  const RequestId cancelled = run.add(prompt_of(40, 30), 5, 7);
  run.worker.spoilt_token = 96;
  run.add({96, 96}, 5);
  run.step();
  run.step();
  EXPECT_EQ(run.leader.status().prefilling, 1U);
  run.leader.cancel(cancelled);
  run.run();
  status = run.leader.status();
  EXPECT_EQ(status.finished.stop, 1U);
  EXPECT_EQ(status.finished.length, 2U);
  EXPECT_EQ(status.finished.cancelled, 7U);
  EXPECT_EQ(status.finished.error, 1U);
  EXPECT_EQ(status.generated_tokens, 1U + 2 * 3);
  EXPECT_EQ(status.prompt_tokens, 10U + 6 + 40 + 2);
  EXPECT_EQ(status.computed_prompt_tokens, run.computed_tokens - 2 * 2) << "all but generated ones";
  EXPECT_EQ(status.steps, run.steps);
  EXPECT_EQ(status.last_step_seconds, 0.25);
  EXPECT_EQ(status.running + status.queued, 0U);
}

TEST(LeaderQueue, ReportsCachedTokensAtTheEnd) {
  LeaderRun run(64, 4, limits_of(16, 4));
  run.add(prompt_of(18), 1);
  run.run();
  Request scored;
  scored.prompt = prompt_of(18);
  scored.score_from = 17;
  scored.max_tokens = 0;
  const RequestId id = run.add(scored);
  run.run();
  EXPECT_EQ(std::get<RequestFinished>(*run.received[id].end).cached_tokens, 16U);
}

// In every state of a request, the next plan() ends it and frees its blocks.
class LeaderCancel : public ::testing::Test {
 protected:
  void expect_cancelled(RequestId id) {
    run.leader.cancel(id);
    EXPECT_TRUE(run.leader.has_work());
    run.plan();
    EXPECT_TRUE(run.received[id].ended_with<RequestCancelled>());
    if (run.in_flight() > 0) run.finish_step();
  }

  LeaderRun run{64, 4, limits_of(16, 4)};
};

TEST_F(LeaderCancel, EndsARequestInTheInbox) {
  expect_cancelled(run.add(prompt_of(10), 3, 3));
  expect_all_free(run);
}

TEST_F(LeaderCancel, EndsAQueuedRequest) {
  for (TokenId i = 0; i < 4; ++i) run.add(prompt_of(5, 20 * i), 50);
  run.step();
  run.step();
  const RequestId id = run.add(prompt_of(10), 3, 3);
  run.step();
  EXPECT_EQ(run.leader.status().queued, 3U);
  expect_cancelled(id);
  EXPECT_EQ(run.leader.status().queued, 0U);
  EXPECT_EQ(run.leader.status().running, 4U);
}

TEST_F(LeaderCancel, EndsAPromptThatIsBeingComputed) {
  const RequestId id = run.add(prompt_of(60), 3);
  run.step();
  EXPECT_EQ(run.leader.status().prefilling, 1U);
  expect_cancelled(id);
  expect_all_free(run);
}

TEST_F(LeaderCancel, EndsAGeneratingRequest) {
  const RequestId id = run.add(prompt_of(6), 50, 2);
  for (int i = 0; i < 4; ++i) run.step();
  EXPECT_EQ(run.leader.status().decoding, 2U);
  expect_cancelled(id);
  expect_all_free(run);
}

TEST_F(LeaderCancel, EndsARequestThatWaitsForAPrefix) {
  const RequestId ahead = run.add(prompt_of(60), 3);
  const RequestId id = run.add(prompt_of(60), 3);
  run.step();
  EXPECT_EQ(run.leader.status().queued, 1U);
  expect_cancelled(id);
  run.run();
  EXPECT_EQ(run.received[ahead].tokens[0], continuation(prompt_of(60), 3));
  expect_all_free(run);
}

TEST_F(LeaderCancel, EndsAPreemptedRequest) {
  LeaderRun tight(6, 4, limits_of(16, 4));
  tight.add(prompt_of(4, 0), 11);
  const RequestId second = tight.add(prompt_of(4, 50), 11);
  while (tight.leader.status().preemptions == 0) {
    ASSERT_LT(tight.steps, 100U);
    tight.step();
  }
  tight.leader.cancel(second);
  tight.plan();
  EXPECT_TRUE(tight.received[second].ended_with<RequestCancelled>());
  tight.finish_step();
  tight.run();
  expect_all_free(tight);
}

TEST_F(LeaderCancel, LeavesNoStateAfterStorms) {
  reference::Random random(7);
  std::vector<RequestId> ids;
  for (int i = 0; i < 3000; ++i) {
    Request request;
    request.prompt = prompt_of(random.integer(1, 60), static_cast<TokenId>(20 * random.integer(0, 3)));
    request.max_tokens = static_cast<int>(random.integer(1, 20));
    request.n = static_cast<int>(random.integer(1, 3));
    request.priority = static_cast<int>(random.integer(0, 2));
    request.cache_salt = random.coin() ? "" : "salt";
    ids.push_back(run.add(request));
    if (random.coin()) run.leader.cancel(ids[random.integer(0, ids.size() - 1)]);
    if (random.coin()) run.step();
    if (i % 100 == 99) {
      for (const RequestId id : ids) run.leader.cancel(id);
      run.step();
      expect_all_free(run);
      for (const RequestId id : ids) EXPECT_EQ(run.received[id].ends, 1);
    }
  }
  const LeaderStatus status = run.leader.status();
  EXPECT_EQ(status.queued_requests, 0U);
  EXPECT_EQ(status.queued_prompt_tokens, 0U);
  run.add(prompt_of(4), 1);  // the next step tells the ranks which sequences have ended
  run.run();
  EXPECT_EQ(run.worker.sequences(), 1U) << "the ranks know others";
}

TEST(LeaderSleep, EndsWhenThereIsWork) {
  LeaderRun run(64, 4, limits_of(16, 4));
  EXPECT_FALSE(run.leader.wait_for_work(std::chrono::nanoseconds(1)));
  std::thread client([&] { run.leader.submit({.prompt = prompt_of(4), .max_tokens = 1}, {}); });
  EXPECT_TRUE(run.leader.wait_for_work(kLong));
  client.join();
  EXPECT_TRUE(run.leader.wait_for_work(kLong)) << "there still is";
  run.step();
  EXPECT_FALSE(run.leader.wait_for_work(std::chrono::nanoseconds(1)));
}

TEST(LeaderSleep, EndsWithACancellation) {
  LeaderRun run(64, 4, limits_of(16, 4));
  std::thread client([&] { run.leader.cancel(5); });
  EXPECT_TRUE(run.leader.wait_for_work(kLong));
  client.join();
  run.step();
  EXPECT_FALSE(run.leader.has_work());
}

TEST(LeaderSleep, EndsWhenItIsWokenEvenIfThatWasBefore) {
  LeaderRun run(64, 4, limits_of(16, 4));
  std::thread client([&] { run.leader.wake(); });
  EXPECT_FALSE(run.leader.wait_for_work(kLong));
  client.join();
  run.leader.wake();
  EXPECT_FALSE(run.leader.wait_for_work(kLong));
  EXPECT_FALSE(run.leader.wait_for_work(std::chrono::nanoseconds(1))) << "a wake-up counts once";
}

}  // namespace
}  // namespace tp

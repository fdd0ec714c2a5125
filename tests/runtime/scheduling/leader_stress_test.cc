// Random requests, cancellations and cache pressure: every text is the one that the model would generate if
// the request ran alone, cached values always belong to the sequence that reads them, and every request ends
// once.
#include "runtime/speculation/speculator.h"
#include "tests/reference/random.h"
#include "tests/runtime/scheduling/leader_run.h"
#include "tests/runtime/speculation/nearly_right_source.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Random;
using test::continuation;
using test::LeaderRun;

struct Sent {
  Request request;
  bool cancelled = false;
};

// Returns a prompt with one of four beginnings, so many prompts share one.
std::vector<TokenId> random_prompt(Random& random, std::size_t longest) {
  std::vector<TokenId> prompt(random.integer(1, longest));
  const auto beginning = static_cast<TokenId>(random.integer(0, 3) * 20);
  const std::size_t common = random.integer(0, prompt.size());
  for (std::size_t i = 0; i < prompt.size(); ++i)
    prompt[i] =
        i < common ? (beginning + static_cast<TokenId>(i)) % 97 : static_cast<TokenId>(random.integer(0, 96));
  return prompt;
}

Request random_request(Random& random, std::size_t cache_tokens, std::size_t indivisible_tokens) {
  Request request;
  request.sampling.temperature = 0.0F;
  request.prompt = random_prompt(random, std::min<std::size_t>(cache_tokens - 12, 40));
  request.max_tokens = static_cast<int>(random.integer(1, 10));
  if (random.integer(0, 4) == 0) request.n = static_cast<int>(random.integer(2, 6));
  if (random.integer(0, 4) == 0 && request.prompt.size() > 1) {
    request.score_from = random.integer(1, request.prompt.size() - 1);
    if (random.coin()) request.max_tokens = 0;
    if (request.max_tokens == 0) request.n = 1;
  }
  if (random.integer(0, 9) == 0) request.prompt_logits = true;
  if (random.integer(0, 7) == 0) request.speculate = false;
  if (random.integer(0, 5) == 0) request.cache_prompt = false;
  if (random.integer(0, 3) == 0) request.cache_salt = random.coin() ? "a" : "b";
  if (random.integer(0, 3) == 0) request.priority = static_cast<int>(random.integer(0, 2)) - 1;
  request.report_progress = random.coin();
  if (random.integer(0, 5) == 0 && request.prompt.size() <= indivisible_tokens) {
    request.bidirectional = true;
    request.prompt_logits = true;
    request.score_from = std::nullopt;
    request.max_tokens = 0;
    request.n = 1;
  }
  return request;
}

void expect_answer(const LeaderRun::Received& received, const Sent& sent) {
  const Request& request = sent.request;
  ASSERT_EQ(received.ends, 1);
  if (sent.cancelled && std::holds_alternative<RequestCancelled>(*received.end)) return;
  EXPECT_TRUE(std::holds_alternative<RequestFinished>(*received.end));
  const auto tokens = continuation(request.prompt, static_cast<std::size_t>(request.max_tokens));
  EXPECT_EQ(received.tokens.size(), request.max_tokens == 0 ? 0U : static_cast<std::size_t>(request.n));
  for (const auto& [sample, found] : received.tokens) EXPECT_EQ(found, tokens);
  if (request.prompt_logits) {
    EXPECT_EQ(received.logits.size(), 2 * request.prompt.size());
  } else if (request.score_from) {
    ASSERT_EQ(received.logprobs.size(), request.prompt.size() - *request.score_from);
    for (std::size_t i = *request.score_from; i < request.prompt.size(); ++i)
      EXPECT_EQ(received.logprobs[i - *request.score_from],
                test::logprob_after(std::span(request.prompt).first(i), request.prompt[i]));
  }
}

// Returns layers with full attention, layers with windows, or both.
CacheWindows random_windows(Random& random) {
  CacheWindows windows(random.integer(1, 3));
  for (CacheWindow& window : windows) {
    if (random.coin())
      window = random.integer(2, 30);  // in a window of 1, a token would not see the token before it
  }
  return windows;
}

// Returns null, or a speculator with random accuracy and costs, so that drafts may pay off or not.
std::unique_ptr<Speculator> random_speculator(Random& random) {
  if (random.integer(0, 2) == 0) return nullptr;
  std::optional<RowCosts> costs;
  if (random.coin()) {
    const double slope = 0.02 * static_cast<double>(random.integer(0, 5));
    costs.emplace(std::vector<RowCosts::Point>{{1, 0.01}, {16, 0.01 + slope}});
  }
  return std::make_unique<Speculator>(
      std::make_unique<test::NearlyRightSource>(random.integer(0, 6), random.integer(0, 1000)),
      random.integer(1, kMaxDraftTokens), std::move(costs));
}

// Returns the windows of Gemma 4 26B on one rank: one group of full attention, and 13 groups with the same
// window.
CacheWindows many_windows(Random& random) {
  CacheWindows windows(14, random.integer(2, 30));
  windows.front() = std::nullopt;
  return windows;
}

// Sends `requests` requests to one leader, which runs up to `in_flight` steps at once.
void stress(std::uint64_t seed, std::size_t requests, std::size_t in_flight,
            CacheWindows (*windows_of)(Random&) = random_windows) {
  SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << in_flight << " in flight");
  Random random(seed);
  const std::size_t block_size = random.integer(1, 6);
  const std::size_t cache_tokens = random.integer(20, 120);
  const std::size_t chunk = random.integer(1, 20);
  const std::size_t sequences = random.integer(1, 8);
  const CacheWindows windows = windows_of(random);
  const CacheShape shape{.block_size = block_size,
                         .chunk = chunk,
                         .windows = windows,
                         .states = random.integer(0, 2) == 0 ? kStatesPerSequence * sequences : 0};
  LeaderOptions limits = test::limits_of(chunk, sequences);
  if (random.coin()) limits.engine.step_time = std::chrono::milliseconds(5);
  LeaderRun run(shape.blocks_for(cache_tokens), block_size, limits, windows, shape.states,
                random_speculator(random));
  run.seconds_of = [&](const PlannedStep&) { return 0.001 * static_cast<double>(random.integer(0, 100)); };
  std::map<RequestId, Sent> sent;
  const auto cancel_one = [&] {
    auto one = sent.begin();
    std::advance(one, random.integer(0, sent.size() - 1));
    one->second.cancelled = true;
    run.leader.cancel(one->first);
  };
  while (sent.size() < requests || run.leader.has_work()) {
    ASSERT_LT(run.steps, 100000U) << "it does not come to an end";
    for (std::size_t i = random.integer(0, 3); i > 0 && sent.size() < requests; --i) {
      Request request =
          random_request(random, cache_tokens, shape.states != 0 ? 0 : limits.indivisible_tokens());
      sent[run.add(request)].request = request;
    }
    if (random.integer(0, 7) == 0 && !sent.empty()) cancel_one();
    while (run.in_flight() < in_flight && !run.plan().tokens.empty()) continue;
    if (run.in_flight() > 0) run.finish_step();
    if (testing::Test::HasFailure()) return;
  }
  while (run.in_flight() > 0) run.finish_step();
  for (const auto& [id, one] : sent) expect_answer(run.received[id], one);
  const LeaderStatus status = run.leader.status();
  EXPECT_EQ(status.used_blocks, 0U);
  EXPECT_EQ(status.queued_requests + status.queued_prompt_tokens + status.queued + status.running, 0U);
  std::size_t continuations = 0;
  for (const auto& [id, one] : sent) continuations += static_cast<std::size_t>(one.request.n);
  EXPECT_EQ(status.finished.total(), continuations);
}

TEST(LeaderStress, GivesEveryRequestItsOwnAnswerInAnyBatch) {
  for (std::uint64_t seed = 1; seed <= 250 && !HasFailure(); ++seed) stress(seed, 20, 1);
}

TEST(LeaderStress, GivesEveryRequestItsOwnAnswerWithSeveralStepsInFlight) {
  for (std::uint64_t seed = 1; seed <= 250 && !HasFailure(); ++seed) stress(seed, 20, 2 + seed % 3);
}

// Sends 10,000 requests. After every 20, no block is in use.
TEST(LeaderStress, KeepsItsAccountsWithManyGroupsOfLayers) {
  for (std::uint64_t seed = 1; seed <= 500 && !HasFailure(); ++seed) stress(seed, 20, 1, many_windows);
}

}  // namespace
}  // namespace tp

// How the leader divides steps among competing requests: prompts take turns, generation never stalls, and
// urgent requests come first.
#include "runtime/scheduling/leader.h"
#include "tests/runtime/scheduling/leader_run.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::chunk_sizes;
using test::continuation;
using test::expect_all_free;
using test::LeaderRun;
using test::limits_of;
using test::prompt_of;

using Sizes = std::vector<std::size_t>;

Request request_of(std::vector<TokenId> prompt, int max_tokens, int priority = 0) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0.0F;
  request.priority = priority;
  return request;
}

// Prompts that share no beginning with those of prompt_of.
std::vector<TokenId> other_prompt(std::size_t size, TokenId multiplier) {
  std::vector<TokenId> prompt(size);
  for (std::size_t i = 0; i < size; ++i)
    prompt[i] = (static_cast<TokenId>(i) * multiplier + multiplier + 3) % 97;
  return prompt;
}

LeaderOptions limits_in_time(std::size_t chunk, std::size_t sequences, double step_ms) {
  LeaderOptions limits = limits_of(chunk, sequences);
  limits.engine.step_time = std::chrono::duration<double, std::milli>(step_ms);
  return limits;
}

// Says that each prompt token takes 2 ms, and generating takes 50 ms.
double two_ms_per_token(const PlannedStep& step) {
  return 0.002 * static_cast<double>(step.prompt_tokens) + (step.decoding > 0 ? 0.05 : 0.0);
}

TEST(LeaderUnderLoad, LimitsPromptsToAStepsTimeWhileAnybodyGenerates) {
  LeaderRun run(1000, 4, limits_in_time(512, 4, 200.0));
  run.seconds_of = two_ms_per_token;
  run.add(prompt_of(600), 1);
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{512}) << "nobody generates, so nobody is held up";
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{88});
  const RequestId streaming = run.add(prompt_of(4, 50), 8);
  run.step();
  const RequestId longer = run.add(other_prompt(500, 2), 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(chunk_sizes(run.step()), (Sizes{1, 100}));
  EXPECT_EQ(run.received[streaming].tokens[0].size(), 4U) << "one per step";
  run.run();
  EXPECT_EQ(run.received[longer].tokens[0], continuation(other_prompt(500, 2), 1));
}

TEST(LeaderUnderLoad, FollowsAMachineThatBecomesSlowerAndFasterAgain) {
  LeaderRun run(4000, 4, limits_in_time(512, 4, 200.0));
  double seconds_per_token = 0.002;
  run.seconds_of = [&](const PlannedStep& step) {
    return seconds_per_token * static_cast<double>(step.prompt_tokens);
  };
  run.add(prompt_of(4, 50), 100);
  run.add(other_prompt(10000, 2), 1);
  const auto prompt_tokens_after = [&](int steps) {
    Forward forward;
    for (int i = 0; i < steps; ++i) forward = run.step();
    return chunk_sizes(forward).back();
  };
  EXPECT_EQ(prompt_tokens_after(5), 100U);
  seconds_per_token = 0.01;
  EXPECT_EQ(prompt_tokens_after(5), 20U);
  seconds_per_token = 0.0001;
  EXPECT_EQ(prompt_tokens_after(5), 511U) << "what else fits into a step is the most";
  seconds_per_token = 10.0;
  EXPECT_EQ(prompt_tokens_after(5), 16U) << "and 16 the least";
}

TEST(LeaderUnderLoad, AdmitsABidirectionalPromptForAnyStepTimeLimit) {
  LeaderRun run(200, 4, limits_in_time(100, 3, 1.0));
  run.seconds_of = two_ms_per_token;
  run.add(prompt_of(4, 50), 20);
  run.step();
  Request request = request_of(prompt_of(90), 0);
  request.bidirectional = true;
  request.prompt_logits = true;
  run.add(request);
  EXPECT_EQ(chunk_sizes(run.step()), (Sizes{1, 90}));
}

TEST(LeaderUnderLoad, FinishesShortPromptsDuringALongOne) {
  LeaderRun run(2000, 4, limits_of(64, 8));
  const RequestId longest = run.add(other_prompt(3000, 2), 1);
  run.step();
  std::vector<RequestId> small;
  for (TokenId i = 0; i < 4; ++i) small.push_back(run.add({90, i}, 1));
  EXPECT_EQ(run.step().tokens.size(), 64U);
  EXPECT_EQ(run.step().tokens.size(), 64U);
  for (const RequestId id : small) EXPECT_EQ(run.received[id].ends, 1);
  EXPECT_EQ(run.received[longest].ends, 0);
  run.run();
  EXPECT_EQ(run.received[longest].tokens[0], continuation(other_prompt(3000, 2), 1));
}

TEST(LeaderUnderLoad, DividesStepsEvenlyAmongLongPrompts) {
  LeaderRun run(2000, 4, limits_of(96, 8));
  for (const TokenId multiplier : {2, 3, 5}) run.add(other_prompt(1500, multiplier), 1);
  for (int i = 0; i < 3; ++i) run.step();
  for (int i = 0; i < 5; ++i) {
    Sizes sizes = chunk_sizes(run.step());
    EXPECT_EQ(sizes, (Sizes{32, 32, 32}));
  }
}

// Each step has room for one prompt's turn only, as on a slow machine.
TEST(LeaderUnderLoad, GivesEveryPromptATurnEvenIfAStepHasRoomForOneOnly) {
  LeaderRun run(2000, 4, limits_of(16, 8));
  run.add(other_prompt(1000, 2), 1);
  run.step();
  run.add(other_prompt(1000, 3), 1);
  std::map<SequenceId, std::size_t> steps;
  for (int i = 0; i < 20; ++i) {
    const Forward forward = run.step();
    for (const SequenceChunk& chunk : forward.chunks) ++steps[chunk.sequence];
  }
  EXPECT_EQ(steps[1], 10U);
  EXPECT_EQ(steps[2], 10U);
  // New short prompts do not stall the two long ones: each long prompt gets at least every third turn.
  for (TokenId i = 0; i < 90; ++i) run.add({static_cast<TokenId>(i), 95}, 1);
  steps.clear();
  for (int i = 0; i < 30; ++i) {
    const Forward forward = run.step();
    for (const SequenceChunk& chunk : forward.chunks) ++steps[chunk.sequence];
  }
  EXPECT_GE(steps[1], 10U);
  EXPECT_GE(steps[2], 10U);
}

TEST(LeaderUnderLoad, BeginsNoPromptForWhoseRestTheCacheHasNoRoom) {
  LeaderRun run(30, 4, limits_of(16, 8));  // room for 120 tokens
  const RequestId first = run.add(other_prompt(80, 2), 2);
  run.step();
  const RequestId second = run.add(other_prompt(60, 3), 2);  // the cache has room for its first chunk only
  const RequestId third = run.add(other_prompt(20, 5), 2);
  run.run();
  EXPECT_EQ(run.leader.status().preemptions, 0U);
  EXPECT_EQ(run.computed_tokens, 80U + 60 + 20 + 3);
  EXPECT_EQ(run.received[first].tokens[0], continuation(other_prompt(80, 2), 2));
  EXPECT_EQ(run.received[second].tokens[0], continuation(other_prompt(60, 3), 2));
  EXPECT_EQ(run.received[third].tokens[0], continuation(other_prompt(20, 5), 2));
}

TEST(LeaderUnderLoad, BeginsUrgentRequestsFirst) {
  LeaderRun run(200, 4, limits_of(16, 1));
  std::vector<RequestId> ended;
  const auto add = [&](TokenId first, int priority) {
    run.leader.submit(request_of(prompt_of(4, first), 1, priority), [&](const Event& event) {
      if (const auto* end = std::get_if<RequestFinished>(&event)) ended.push_back(end->request);
    });
  };
  add(0, 2);   // request 1
  add(10, 0);  // request 2
  add(20, 2);  // request 3
  add(30, -7);
  add(40, 0);
  run.run();
  EXPECT_EQ(ended, (std::vector<RequestId>{4, 2, 5, 1, 3}));
}

TEST(LeaderUnderLoad, ComputesUrgentPromptsBeforeOthersThatHaveBegun) {
  LeaderRun run(2000, 4, limits_of(64, 8));
  run.add(other_prompt(1000, 2), 1);
  run.step();
  const RequestId urgent = run.add(request_of(other_prompt(150, 3), 1, -1));
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{64});
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{64});
  EXPECT_EQ(chunk_sizes(run.step()), (Sizes{22, 42}));
  EXPECT_EQ(run.received[urgent].tokens[0], continuation(other_prompt(150, 3), 1));
}

TEST(LeaderUnderLoad, PreemptsTheYoungestOfTheLeastUrgent) {
  LeaderRun run(12, 4, limits_of(64, 4));  // room for 48 tokens
  const RequestId least_urgent = run.add(request_of(prompt_of(8, 0), 20, 1));
  run.step();
  const RequestId urgent = run.add(request_of(prompt_of(8, 30), 20, -1));
  run.step();
  const RequestId usual = run.add(request_of(prompt_of(8, 60), 20, 0));
  while (run.leader.status().preemptions == 0) {
    ASSERT_LT(run.steps, 100U);
    run.step();
  }
  // The oldest request was preempted, so it makes no progress.
  const auto before = run.received;
  run.step();
  EXPECT_EQ(run.received[least_urgent].tokens[0].size(), before.at(least_urgent).tokens.at(0).size());
  EXPECT_GT(run.received[urgent].tokens[0].size(), before.at(urgent).tokens.at(0).size());
  EXPECT_GT(run.received[usual].tokens[0].size(), before.at(usual).tokens.at(0).size());
  run.run();
  EXPECT_EQ(run.received[least_urgent].tokens[0], continuation(prompt_of(8, 0), 20));
  EXPECT_EQ(run.received[urgent].tokens[0], continuation(prompt_of(8, 30), 20));
  EXPECT_EQ(run.received[usual].tokens[0], continuation(prompt_of(8, 60), 20));
  expect_all_free(run);
}

TEST(LeaderUnderLoad, DoesNotLetAnUrgentRequestWaitForALessUrgentOnesPrefix) {
  LeaderRun run(2000, 4, limits_of(64, 8));
  run.add(request_of(prompt_of(1000), 1, 5));
  run.step();
  const RequestId urgent = run.add(request_of(prompt_of(128), 1));
  const Forward forward = run.step();
  ASSERT_EQ(forward.chunks.size(), 1U);
  EXPECT_EQ(forward.chunks[0].sequence, 2U) << "the less urgent one goes on";
  run.step();
  EXPECT_EQ(run.received[urgent].ends, 1);
}

TEST(LeaderUnderLoad, SharesBlocksOnlyBetweenEqualSalts) {
  LeaderRun run(200, 4, limits_of(80, 8));
  const auto cached_for = [&](const std::string& salt) {
    Request request = request_of(prompt_of(30), 1);
    request.cache_salt = salt;
    const RequestId id = run.add(request);
    run.run();
    EXPECT_EQ(run.received[id].tokens[0], continuation(prompt_of(30), 1));
    return run.received[id].cached_tokens;
  };
  EXPECT_EQ(cached_for(""), 0U);
  EXPECT_EQ(cached_for("a"), 0U);
  EXPECT_EQ(cached_for("b"), 0U);
  EXPECT_EQ(cached_for("ab"), 0U);
  for (const char* salt : {"", "a", "b", "ab"}) EXPECT_EQ(cached_for(salt), 28U) << salt;
}

TEST(LeaderUnderLoad, DoesNotLetARequestWaitForAPromptWithAnotherSalt) {
  LeaderRun run(200, 4, limits_of(80, 8));
  Request request = request_of(prompt_of(30), 1);
  request.cache_salt = "a";
  run.add(request);
  request.cache_salt = "b";
  run.add(request);
  EXPECT_EQ(chunk_sizes(run.step()), (Sizes{30, 30}));
}

TEST(LeaderUnderLoad, ReportsAPromptsProgressBeforeItsFirstToken) {
  LeaderRun run(200, 4, limits_of(20, 8));
  run.add(prompt_of(9), 1);
  run.run();
  Request request = request_of(prompt_of(50), 3);
  request.report_progress = true;
  const RequestId id = run.add(request);
  request.report_progress = false;
  const RequestId silent = run.add(request);
  run.run();
  Sizes processed;
  for (const PrefillProgress& progress : run.received[id].progress) {
    EXPECT_EQ(progress.total, 50U);
    EXPECT_EQ(progress.cached, 8U);
    processed.push_back(progress.processed);
  }
  EXPECT_EQ(processed, (Sizes{28, 48, 50}));
  EXPECT_TRUE(run.received[silent].progress.empty());
  EXPECT_EQ(run.received[id].tokens[0].size(), 3U);
}

// This is OpenAI's `echo` with log-probabilities.
TEST(LeaderUnderLoad, ScoresAPromptAndThenContinuesItSeveralTimes) {
  LeaderRun run(200, 4, limits_of(20, 8));
  Request request = request_of(prompt_of(50), 4);
  request.score_from = 1;
  request.n = 3;
  std::vector<std::string> order;
  const RequestId id = run.leader.submit(request, [&](const Event& event) {
    if (std::holds_alternative<PromptLogprobs>(event)) order.push_back("scores");
    if (const auto* token = std::get_if<TokenEvent>(&event); token != nullptr && token->sample == 0)
      order.push_back("token");
  });
  const RequestId same = run.add(request);
  run.run();
  EXPECT_EQ(order,
            (std::vector<std::string>{"scores", "scores", "scores", "token", "token", "token", "token"}));
  EXPECT_NE(id, same);
  ASSERT_EQ(run.received[same].logprobs.size(), 49U);
  for (std::size_t i = 1; i < 50; ++i)
    EXPECT_EQ(run.received[same].logprobs[i - 1], test::logprob_after(prompt_of(i), prompt_of(50)[i]));
  for (int sample = 0; sample < 3; ++sample)
    EXPECT_EQ(run.received[same].tokens[sample], continuation(prompt_of(50), 4));
}

}  // namespace
}  // namespace tp

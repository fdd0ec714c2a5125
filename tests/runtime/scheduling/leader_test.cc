// The leader's plans, without ranks, MPI or a model.
#include "runtime/scheduling/leader.h"

#include "tests/runtime/scheduling/leader_run.h"
#include "tp/error.h"

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

TEST(Leader, WithoutWorkPlansAnEmptyStep) {
  LeaderRun run(8, 4, limits_of(16, 4));
  EXPECT_FALSE(run.leader.has_work());
  EXPECT_TRUE(run.plan().tokens.empty());
}

TEST(Leader, CutsAPromptIntoChunksAndWantsATokenAfterTheLast) {
  LeaderRun run(16, 4, limits_of(8, 4));
  const RequestId id = run.add(prompt_of(19), 3);
  const Forward first = run.step();
  EXPECT_EQ(chunk_sizes(first), Sizes{8});
  EXPECT_TRUE(first.outputs.empty());
  EXPECT_TRUE(first.chunks[0].start.has_value());
  const Forward second = run.step();
  EXPECT_EQ(second.chunks[0].start_position, 8U);
  EXPECT_FALSE(second.chunks[0].start.has_value());
  EXPECT_TRUE(second.outputs.empty());
  const Forward third = run.step();
  EXPECT_EQ(chunk_sizes(third), Sizes{3});
  ASSERT_EQ(third.outputs.size(), 1U);
  EXPECT_EQ(third.outputs[0].rows.first, 2U);
  EXPECT_EQ(third.outputs[0].rows.count, 1U);
  EXPECT_TRUE(std::holds_alternative<want::Choose>(third.outputs[0].want));
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{1});
  run.run();
  EXPECT_EQ(run.received[id].tokens[0], continuation(prompt_of(19), 3));
  EXPECT_EQ(run.received[id].reasons[0], FinishReason::length);
  EXPECT_TRUE(run.received[id].ended_with<RequestFinished>());
  expect_all_free(run);
}

TEST(Leader, TakesDecodingSequencesBeforePromptChunks) {
  LeaderRun run(64, 4, limits_of(8, 4));
  run.add(prompt_of(3, 0), 20);
  run.add(prompt_of(40, 50), 20);
  run.step();  // 3 tokens of the first sequence, 5 of the second
  const Forward forward = run.step();
  EXPECT_EQ(chunk_sizes(forward), (Sizes{1, 7}));
  EXPECT_EQ(forward.outputs.size(), 1U);
}

TEST(Leader, FillsAStepWithSeveralPromptsFirstComeFirstServed) {
  LeaderRun run(64, 4, limits_of(10, 4));
  run.add(prompt_of(4, 0), 2);
  run.add(prompt_of(3, 10), 2);
  run.add(prompt_of(9, 20), 2);
  const Forward forward = run.step();
  EXPECT_EQ(chunk_sizes(forward), (Sizes{4, 3, 3}));
  EXPECT_EQ(forward.tokens, (std::vector<TokenId>{0, 1, 2, 3, 10, 11, 12, 20, 21, 22}));
  EXPECT_EQ(forward.outputs.size(), 2U);
}

TEST(Leader, WorksOnAtMostMaxSequencesAtOnce) {
  LeaderRun run(64, 4, limits_of(64, 2));
  for (int i = 0; i < 5; ++i) run.add(prompt_of(4, 10 * i), 3);
  EXPECT_EQ(run.step().chunks.size(), 2U);
  EXPECT_EQ(run.leader.status().running, 2U);
  EXPECT_EQ(run.leader.status().queued, 3U);
  run.run();
  for (const auto& [id, received] : run.received) EXPECT_TRUE(received.ended_with<RequestFinished>());
}

// There are more sequences than tokens in a chunk, and a step still serves all of them.
TEST(Leader, LetsEverySequenceDecodeInEveryStepEvenWithASmallChunk) {
  LeaderRun run(64, 4, limits_of(2, 6));
  for (int i = 0; i < 6; ++i) run.add(prompt_of(2, 10 * i), 30);
  while (run.step().outputs.size() < 6) ASSERT_LT(run.steps, 10U);
  EXPECT_EQ(run.step().outputs.size(), 6U);
}

TEST(Leader, LetsSamplesWaitForTheirPromptAndShareItsBlocks) {
  LeaderRun run(64, 4, limits_of(8, 8));
  const RequestId id = run.add(prompt_of(18), 4, 5);
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{8});
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{8});
  // The prompt's last two tokens fill no block, so every sample computes them.
  EXPECT_EQ(chunk_sizes(run.step()), (Sizes{2, 2, 2, 2}));
  EXPECT_EQ(chunk_sizes(run.step()), (Sizes{1, 1, 1, 1, 2}));
  run.run();
  for (int sample = 0; sample < 5; ++sample)
    EXPECT_EQ(run.received[id].tokens[sample], continuation(prompt_of(18), 4));
  EXPECT_EQ(run.computed_tokens, 18U + 4 * 2 + 5 * 3);  // the prompt once, and its last two tokens four times
  EXPECT_LE(run.max_blocks, 4U + 5 * 2);                // 16 shared tokens, and 6 tokens of each sample
  EXPECT_EQ(run.received[id].cached_tokens, 16U);
}

TEST(Leader, LetsPromptsThatBeginAlikeComputeTheirCommonBlocksOnce) {
  LeaderRun run(64, 4, limits_of(8, 8));
  std::vector<RequestId> ids;
  std::vector<std::vector<TokenId>> prompts;
  for (TokenId i = 0; i < 4; ++i) {
    prompts.push_back(prompt_of(13));  // the prompts share three blocks
    prompts.back().push_back(60 + i);
    prompts.back().push_back(70 + i);
    ids.push_back(run.add(prompts.back(), 2));
  }
  const RequestId other = run.add(prompt_of(3, 50), 2);
  // The prompt without common blocks does not wait.
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{8});
  EXPECT_EQ(chunk_sizes(run.step()), (Sizes{7, 1}));
  run.run();
  EXPECT_EQ(run.computed_tokens, 15U + 3 * 3 + 3 + 5);
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(run.received[ids[i]].tokens[0], continuation(prompts[i], 2));
  EXPECT_EQ(run.received[other].tokens[0], continuation(prompt_of(3, 50), 2));
}

TEST(Leader, DoesNotWaitForEverForABeginningWhoseRequestIsCancelled) {
  LeaderRun run(64, 4, limits_of(4, 8));
  const RequestId first = run.add(prompt_of(40), 2);
  const RequestId second = run.add(prompt_of(40), 2);
  run.step();
  run.leader.cancel(first);
  run.run();
  EXPECT_TRUE(run.received[first].ended_with<RequestCancelled>());
  EXPECT_EQ(run.received[second].tokens[0], continuation(prompt_of(40), 2));
}

TEST(Leader, PreemptsTheLastSequenceWhenTheCacheIsFullAndLosesNothing) {
  LeaderRun run(6, 4, limits_of(16, 4));  // room for 24 tokens; both sequences need 30
  const RequestId first = run.add(prompt_of(4, 0), 11);
  const RequestId second = run.add(prompt_of(4, 50), 11);
  run.run();
  EXPECT_GT(run.leader.status().preemptions, 0U) << "the test proves nothing";
  EXPECT_EQ(run.received[first].tokens[0], continuation(prompt_of(4, 0), 11));
  EXPECT_EQ(run.received[second].tokens[0], continuation(prompt_of(4, 50), 11));
}

TEST(Leader, ServesASequenceThatFillsTheWholeCache) {
  LeaderRun run(6, 4, limits_of(16, 4));
  const RequestId first = run.add(prompt_of(10), 14);
  const RequestId second = run.add(prompt_of(20, 30), 4);
  run.run();
  EXPECT_EQ(run.received[first].tokens[0].size(), 14U);
  EXPECT_EQ(run.received[second].tokens[0].size(), 4U);
}

TEST(Leader, CancelsRunningAndWaitingRequests) {
  LeaderRun run(32, 4, limits_of(16, 2));
  const RequestId running = run.add(prompt_of(4, 0), 50);
  const RequestId kept = run.add(prompt_of(4, 20), 5);
  const RequestId waiting = run.add(prompt_of(4, 40), 50, 3);
  run.step();
  run.leader.cancel(running);
  run.leader.cancel(waiting);
  run.leader.cancel(12345);  // an unknown id
  const Forward forward = run.step();
  EXPECT_EQ(forward.ended.size(), 1U) << "the ranks never heard of the others";
  EXPECT_TRUE(run.received[running].ended_with<RequestCancelled>());
  EXPECT_TRUE(run.received[waiting].ended_with<RequestCancelled>());
  run.run();
  run.leader.cancel(kept);  // the request has already ended
  run.run();
  EXPECT_TRUE(run.received[kept].ended_with<RequestFinished>());
  EXPECT_EQ(run.received[kept].tokens[0].size(), 5U);
  EXPECT_TRUE(run.received[waiting].tokens.empty());
  expect_all_free(run);
}

TEST(Leader, MakesTheSamplesOneAfterTheOtherIfTheCacheHoldsOnlyOne) {
  LeaderRun run(4, 4, limits_of(4, 3));
  const RequestId id = run.add(prompt_of(12), 4, 3);
  run.run();
  EXPECT_EQ(run.received[id].reasons.size(), 3U);
  EXPECT_TRUE(run.received[id].ended_with<RequestFinished>());
}

// Waiting samples have no sequence yet, so they add neither memory nor work to a step.
TEST(Scheduler, MakesSequencesOfThoseSamplesAloneThatHaveTheirTurn) {
  BlockManager blocks(16, 4);
  const LeaderOptions options = limits_of(8, 4);
  Scheduler scheduler(blocks, options);
  auto state = std::make_shared<RequestState>();
  state->request.prompt = prompt_of(3);
  state->request.n = state->not_begun = state->open_samples = 2000;
  state->max_tokens = 3;
  scheduler.add(state);
  const PlannedStep planned = scheduler.plan();
  EXPECT_EQ(planned.chunks.size(), 3U);  // three tokens each, in a step of eight
  // The owners: this function, the running requests, and one waiting request.
  EXPECT_EQ(state.use_count(), 1 + 3 + 1);
  LeaderStatus status;
  scheduler.describe(status);
  EXPECT_EQ(status.queued, 1997U);
}

TEST(Leader, ServesThousandsOfSamples) {
  LeaderRun run(16, 4, limits_of(8, 4));
  const RequestId many = run.add(prompt_of(9), 3, 2000);
  const RequestId next = run.add(prompt_of(5, 50), 3, 2000);
  run.run();
  for (int sample = 0; sample < 2000; ++sample) {
    ASSERT_EQ(run.received[many].tokens[sample], continuation(prompt_of(9), 3));
    ASSERT_EQ(run.received[next].tokens[sample], continuation(prompt_of(5, 50), 3));
  }
  EXPECT_TRUE(run.received[many].ended_with<RequestFinished>());
}

TEST(Leader, CountsSamplesThatHaveNotBegunAsQueued) {
  LeaderRun run(64, 4, limits_of(8, 2));
  const RequestId id = run.add(prompt_of(4), 3, 1000);
  EXPECT_EQ(run.leader.status().queued, 1000U);  // the samples are still in the inbox
  run.step();
  EXPECT_EQ(run.leader.status().queued + run.leader.status().running, 1000U);
  run.leader.cancel(id);
  run.run();
  EXPECT_TRUE(run.received[id].ended_with<RequestCancelled>());
  expect_all_free(run);
}

// With two steps in flight, consecutive chunks of a prompt are planned before the first one finishes. A
// sequence that awaits a token is not planned.
TEST(Leader, KeepsTwoStepsInFlight) {
  LeaderRun run(64, 4, limits_of(8, 4));
  const RequestId longer = run.add(prompt_of(20, 0), 3);
  EXPECT_EQ(chunk_sizes(run.plan()), Sizes{8});
  const Forward second = run.plan();
  EXPECT_EQ(chunk_sizes(second), Sizes{8});
  EXPECT_EQ(second.chunks[0].start_position, 8U);
  run.finish_step();
  const Forward third = run.plan();
  EXPECT_EQ(chunk_sizes(third), Sizes{4});
  EXPECT_EQ(third.outputs.size(), 1U);
  EXPECT_TRUE(run.plan().tokens.empty()) << "the next token is not known yet";
  const RequestId late = run.add(prompt_of(6, 50), 3);
  EXPECT_EQ(chunk_sizes(run.plan()), Sizes{6}) << "others go on meanwhile";
  run.finish_step();
  run.finish_step();
  EXPECT_EQ(run.received[longer].tokens[0].size(), 1U);
  EXPECT_EQ(chunk_sizes(run.plan()), Sizes{1});
  while (run.in_flight() > 0) run.finish_step();
  run.run();
  EXPECT_EQ(run.received[longer].tokens[0], continuation(prompt_of(20, 0), 3));
  EXPECT_EQ(run.received[late].tokens[0], continuation(prompt_of(6, 50), 3));
  expect_all_free(run);
}

TEST(Leader, EndsACancelledSequenceInFlightWhenItsStepIsSettled) {
  LeaderRun run(64, 4, limits_of(8, 4));
  const RequestId id = run.add(prompt_of(30), 3);
  run.plan();
  run.plan();
  run.leader.cancel(id);
  EXPECT_TRUE(run.plan().tokens.empty());
  EXPECT_EQ(run.received[id].ends, 0);
  EXPECT_GT(run.leader.status().used_blocks, 0U) << "the ranks still write to them";
  run.finish_step();
  EXPECT_EQ(run.received[id].ends, 0);
  run.finish_step();
  EXPECT_TRUE(run.received[id].ended_with<RequestCancelled>());
  expect_all_free(run);
}

TEST(Leader, KeepsTheBlocksOfStepsInFlightInAFullCache) {
  LeaderRun run(6, 4, limits_of(8, 4));
  const RequestId first = run.add(prompt_of(8, 0), 12);
  const RequestId second = run.add(prompt_of(8, 50), 12);
  while (run.leader.has_work()) {
    ASSERT_LT(run.steps, 1000U);
    while (run.in_flight() < 2 && !run.plan().tokens.empty()) continue;
    run.finish_step();
  }
  EXPECT_GT(run.leader.status().preemptions, 0U) << "the test proves nothing";
  EXPECT_EQ(run.received[first].tokens[0], continuation(prompt_of(8, 0), 12));
  EXPECT_EQ(run.received[second].tokens[0], continuation(prompt_of(8, 50), 12));
}

TEST(Leader, LetsShorterOnesPassALongPromptThatDoesNotFitButNotForEver) {
  LeaderRun run(20, 4, limits_of(64, 8));
  run.add(prompt_of(40, 0), 20);  // takes 10 to 15 of 20 blocks for a while
  run.step();
  const RequestId big = run.add(prompt_of(60, 20), 2);
  std::vector<RequestId> small;
  for (std::size_t i = 0; i < 2 * Scheduler::kMaxOvertaken; ++i)
    small.push_back(run.add({static_cast<TokenId>(i % 90), static_cast<TokenId>(i / 90)}, 1));
  std::size_t before = 0;  // small requests that ended before the big one had a token
  while (run.leader.has_work()) {
    ASSERT_LT(run.steps, 1000U);
    run.step();
    if (!run.received[big].tokens.empty()) continue;
    before = static_cast<std::size_t>(
        std::ranges::count_if(small, [&](RequestId id) { return run.received[id].ends == 1; }));
  }
  EXPECT_EQ(before, Scheduler::kMaxOvertaken);
  EXPECT_EQ(run.received[big].tokens[0], continuation(prompt_of(60, 20), 2));
}

TEST(Leader, PublishesNothingOfAChunkWhoseLogitsAreNotNumbers) {
  LeaderRun run(64, 4, limits_of(8, 4));
  run.worker.spoilt_token = 17;
  const RequestId spoilt = run.add(prompt_of(20), 3);  // the third chunk contains token 17
  run.run();
  EXPECT_EQ(run.received[spoilt].reasons[0], FinishReason::error);
  EXPECT_EQ(run.received[spoilt].errors[0].find("cannot choose a token: the model's logits are not finite"),
            0U);
  EXPECT_TRUE(run.received[spoilt].tokens.empty());
  EXPECT_TRUE(run.received[spoilt].ended_with<RequestFinished>());
  run.worker.spoilt_token = -1;
  const RequestId again = run.add(prompt_of(22), 3);
  run.run();
  EXPECT_EQ(run.received[again].cached_tokens, 16U) << "the chunks before that are sound";
  EXPECT_EQ(run.received[again].tokens[0], continuation(prompt_of(22), 3));
}

}  // namespace
}  // namespace tp

// What the leader plans, and what it tells its requests: without ranks, MPI or a model.
#include "runtime/engine/leader.h"

#include "tests/reference/random.h"
#include "tests/runtime/leader_run.h"
#include "tp/error.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Random;
using test::continuation;
using test::LeaderRun;

using Sizes = std::vector<std::size_t>;

std::vector<TokenId> prompt_of(std::size_t size, TokenId first = 0) {
  std::vector<TokenId> prompt(size);
  for (std::size_t i = 0; i < size; ++i) prompt[i] = (first + static_cast<TokenId>(i)) % 97;
  return prompt;
}

SchedulerLimits limits(std::size_t chunk, std::size_t sequences) {
  return {.prefill_chunk = chunk, .step_tokens = std::max(chunk, sequences), .max_sequences = sequences};
}

Sizes chunk_sizes(const Forward& forward) {
  Sizes sizes;
  for (const SequenceChunk& chunk : forward.chunks) sizes.push_back(chunk.tokens);
  return sizes;
}

Request scoring(std::vector<TokenId> prompt, std::size_t score_from, int max_tokens = 0) {
  Request request;
  request.prompt = std::move(prompt);
  request.score_from = score_from;
  request.max_tokens = max_tokens;
  return request;
}

std::vector<double> logprobs_of(const std::vector<TokenId>& prompt, std::size_t first) {
  std::vector<double> logprobs;
  for (std::size_t i = first; i < prompt.size(); ++i)
    logprobs.push_back(test::logprob_after(std::span(prompt).first(i), prompt[i]));
  return logprobs;
}

void expect_all_free(const LeaderRun& run) {
  EXPECT_EQ(run.leader.status().used_blocks, 0U);
  EXPECT_EQ(run.leader.status().running, 0U);
  EXPECT_EQ(run.leader.status().queued, 0U);
}

TEST(Leader, WithoutWorkPlansAnEmptyStep) {
  LeaderRun run(8, 4, limits(16, 4));
  EXPECT_FALSE(run.leader.has_work());
  EXPECT_TRUE(run.plan().tokens.empty());
}

TEST(Leader, CutsAPromptIntoChunksAndWantsATokenAfterTheLast) {
  LeaderRun run(16, 4, limits(8, 4));
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
  EXPECT_EQ(run.told[id].tokens[0], continuation(prompt_of(19), 3));
  EXPECT_EQ(run.told[id].reasons[0], FinishReason::length);
  EXPECT_TRUE(run.told[id].ended_with<RequestFinished>());
  expect_all_free(run);
}

TEST(Leader, TakesDecodingSequencesBeforePromptChunks) {
  LeaderRun run(64, 4, limits(8, 4));
  run.add(prompt_of(3, 0), 20);
  run.add(prompt_of(40, 50), 20);
  run.step();  // 3 tokens of the first, 5 of the second
  const Forward forward = run.step();
  EXPECT_EQ(chunk_sizes(forward), (Sizes{1, 7}));
  EXPECT_EQ(forward.outputs.size(), 1U);
}

TEST(Leader, FillsAStepWithSeveralPromptsFirstComeFirstServed) {
  LeaderRun run(64, 4, limits(10, 4));
  run.add(prompt_of(4, 0), 2);
  run.add(prompt_of(3, 10), 2);
  run.add(prompt_of(9, 20), 2);
  const Forward forward = run.step();
  EXPECT_EQ(chunk_sizes(forward), (Sizes{4, 3, 3}));
  EXPECT_EQ(forward.tokens, (std::vector<TokenId>{0, 1, 2, 3, 10, 11, 12, 20, 21, 22}));
  EXPECT_EQ(forward.outputs.size(), 2U);
}

TEST(Leader, WorksOnAtMostMaxSequencesAtOnce) {
  LeaderRun run(64, 4, limits(64, 2));
  for (int i = 0; i < 5; ++i) run.add(prompt_of(4, 10 * i), 3);
  EXPECT_EQ(run.step().chunks.size(), 2U);
  EXPECT_EQ(run.leader.status().running, 2U);
  EXPECT_EQ(run.leader.status().queued, 3U);
  run.run();
  for (const auto& [id, told] : run.told) EXPECT_TRUE(told.ended_with<RequestFinished>());
}

// More sequences than the chunk has tokens: a step still serves all of them.
TEST(Leader, LetsEverySequenceDecodeInEveryStepEvenWithASmallChunk) {
  LeaderRun run(64, 4, limits(2, 6));
  for (int i = 0; i < 6; ++i) run.add(prompt_of(2, 10 * i), 30);
  while (run.step().outputs.size() < 6) ASSERT_LT(run.steps, 10U);
  EXPECT_EQ(run.step().outputs.size(), 6U);
}

TEST(Leader, LetsSamplesWaitForTheirPromptAndShareItsBlocks) {
  LeaderRun run(64, 4, limits(8, 8));
  const RequestId id = run.add(prompt_of(18), 4, 5);
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{8});
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{8});
  // The prompt's last two tokens are in no full block: everyone computes them.
  EXPECT_EQ(chunk_sizes(run.step()), (Sizes{2, 2, 2, 2}));
  EXPECT_EQ(chunk_sizes(run.step()), (Sizes{1, 1, 1, 1, 2}));
  run.run();
  for (int sample = 0; sample < 5; ++sample)
    EXPECT_EQ(run.told[id].tokens[sample], continuation(prompt_of(18), 4));
  EXPECT_EQ(run.computed_tokens, 18U + 4 * 2 + 5 * 3);  // the prompt once, and four times its last two tokens
  EXPECT_LE(run.most_blocks, 4U + 5 * 2);               // 16 tokens shared, 6 of each sample's own
  EXPECT_EQ(run.told[id].cached_tokens, 16U);
}

TEST(Leader, LetsPromptsThatBeginAlikeComputeTheirCommonBlocksOnce) {
  LeaderRun run(64, 4, limits(8, 8));
  std::vector<RequestId> ids;
  std::vector<std::vector<TokenId>> prompts;
  for (TokenId i = 0; i < 4; ++i) {
    prompts.push_back(prompt_of(13));  // of which three blocks are common
    prompts.back().push_back(60 + i);
    prompts.back().push_back(70 + i);
    ids.push_back(run.add(prompts.back(), 2));
  }
  const RequestId other = run.add(prompt_of(3, 50), 2);
  // The one that has nothing in common does not wait.
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{8});
  EXPECT_EQ(chunk_sizes(run.step()), (Sizes{7, 1}));
  run.run();
  EXPECT_EQ(run.computed_tokens, 15U + 3 * 3 + 3 + 5);
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(run.told[ids[i]].tokens[0], continuation(prompts[i], 2));
  EXPECT_EQ(run.told[other].tokens[0], continuation(prompt_of(3, 50), 2));
}

TEST(Leader, DoesNotWaitForEverForABeginningWhoseRequestIsCancelled) {
  LeaderRun run(64, 4, limits(4, 8));
  const RequestId first = run.add(prompt_of(40), 2);
  const RequestId second = run.add(prompt_of(40), 2);
  run.step();
  run.leader.cancel(first);
  run.run();
  EXPECT_TRUE(run.told[first].ended_with<RequestCancelled>());
  EXPECT_EQ(run.told[second].tokens[0], continuation(prompt_of(40), 2));
}

TEST(Leader, PreemptsTheLastSequenceWhenTheCacheIsFullAndLosesNothing) {
  LeaderRun run(6, 4, limits(16, 4));  // 24 tokens of cache, 30 wanted
  const RequestId first = run.add(prompt_of(4, 0), 11);
  const RequestId second = run.add(prompt_of(4, 50), 11);
  run.run();
  EXPECT_GT(run.leader.status().preemptions, 0U) << "the test proves nothing";
  EXPECT_EQ(run.told[first].tokens[0], continuation(prompt_of(4, 0), 11));
  EXPECT_EQ(run.told[second].tokens[0], continuation(prompt_of(4, 50), 11));
}

TEST(Leader, ServesASequenceThatFillsTheWholeCache) {
  LeaderRun run(6, 4, limits(16, 4));
  const RequestId first = run.add(prompt_of(10), 14);
  const RequestId second = run.add(prompt_of(20, 30), 4);
  run.run();
  EXPECT_EQ(run.told[first].tokens[0].size(), 14U);
  EXPECT_EQ(run.told[second].tokens[0].size(), 4U);
}

TEST(Leader, CancelsWhatRunsAndWhatWaits) {
  LeaderRun run(32, 4, limits(16, 2));
  const RequestId running = run.add(prompt_of(4, 0), 50);
  const RequestId kept = run.add(prompt_of(4, 20), 5);
  const RequestId waiting = run.add(prompt_of(4, 40), 50, 3);
  run.step();
  run.leader.cancel(running);
  run.leader.cancel(waiting);
  run.leader.cancel(12345);  // of no request
  const Forward forward = run.step();
  EXPECT_EQ(forward.ended.size(), 1U) << "the ranks never heard of the others";
  EXPECT_TRUE(run.told[running].ended_with<RequestCancelled>());
  EXPECT_TRUE(run.told[waiting].ended_with<RequestCancelled>());
  run.run();
  run.leader.cancel(kept);  // too late
  run.run();
  EXPECT_TRUE(run.told[kept].ended_with<RequestFinished>());
  EXPECT_EQ(run.told[kept].tokens[0].size(), 5U);
  EXPECT_TRUE(run.told[waiting].tokens.empty());
  expect_all_free(run);
}

TEST(Leader, MakesTheSamplesOneAfterTheOtherIfTheCacheHoldsOnlyOne) {
  LeaderRun run(4, 4, limits(4, 3));
  const RequestId id = run.add(prompt_of(12), 4, 3);
  run.run();
  EXPECT_EQ(run.told[id].reasons.size(), 3U);
  EXPECT_TRUE(run.told[id].ended_with<RequestFinished>());
}

// Neither memory nor the work of a step grows with the samples that wait: they are not there yet.
TEST(Scheduler, MakesSequencesOfThoseSamplesAloneThatHaveTheirTurn) {
  BlockManager blocks(16, 4);
  Scheduler scheduler(blocks, limits(8, 4));
  auto state = std::make_shared<RequestState>();
  state->request.prompt = prompt_of(3);
  state->request.n = state->not_begun = state->open_samples = 2000;
  state->max_tokens = 3;
  scheduler.add(state);
  const PlannedStep planned = scheduler.plan();
  EXPECT_EQ(planned.chunks.size(), 3U);  // of three tokens each, in a step of eight
  // This function, those that run, and one that waits.
  EXPECT_EQ(state.use_count(), 1 + 3 + 1);
  EXPECT_EQ(scheduler.queued(), 1997U);
}

TEST(Leader, ServesThousandsOfSamples) {
  LeaderRun run(16, 4, limits(8, 4));
  const RequestId many = run.add(prompt_of(9), 3, 2000);
  const RequestId next = run.add(prompt_of(5, 50), 3, 2000);
  run.run();
  for (int sample = 0; sample < 2000; ++sample) {
    ASSERT_EQ(run.told[many].tokens[sample], continuation(prompt_of(9), 3));
    ASSERT_EQ(run.told[next].tokens[sample], continuation(prompt_of(5, 50), 3));
  }
  EXPECT_TRUE(run.told[many].ended_with<RequestFinished>());
}

TEST(Leader, CountsSamplesThatHaveNotBegunAsQueued) {
  LeaderRun run(64, 4, limits(8, 2));
  const RequestId id = run.add(prompt_of(4), 3, 1000);
  EXPECT_EQ(run.leader.status().queued, 1000U);  // still in the inbox
  run.step();
  EXPECT_EQ(run.leader.status().queued + run.leader.status().running, 1000U);
  run.leader.cancel(id);
  run.run();
  EXPECT_TRUE(run.told[id].ended_with<RequestCancelled>());
  expect_all_free(run);
}

// Two steps at once: consecutive chunks of a prompt are planned before the first is settled, but nothing that
// awaits a token.
TEST(Leader, KeepsTwoStepsInFlight) {
  LeaderRun run(64, 4, limits(8, 4));
  const RequestId longer = run.add(prompt_of(20, 0), 3);
  EXPECT_EQ(chunk_sizes(run.plan()), Sizes{8});
  const Forward second = run.plan();
  EXPECT_EQ(chunk_sizes(second), Sizes{8});
  EXPECT_EQ(second.chunks[0].start_position, 8U);
  run.settle();
  const Forward third = run.plan();
  EXPECT_EQ(chunk_sizes(third), Sizes{4});
  EXPECT_EQ(third.outputs.size(), 1U);
  EXPECT_TRUE(run.plan().tokens.empty()) << "the next token is not known yet";
  const RequestId late = run.add(prompt_of(6, 50), 3);
  EXPECT_EQ(chunk_sizes(run.plan()), Sizes{6}) << "others go on meanwhile";
  run.settle();
  run.settle();
  EXPECT_EQ(run.told[longer].tokens[0].size(), 1U);
  EXPECT_EQ(chunk_sizes(run.plan()), Sizes{1});
  while (run.in_flight() > 0) run.settle();
  run.run();
  EXPECT_EQ(run.told[longer].tokens[0], continuation(prompt_of(20, 0), 3));
  EXPECT_EQ(run.told[late].tokens[0], continuation(prompt_of(6, 50), 3));
  expect_all_free(run);
}

TEST(Leader, EndsACancelledSequenceInFlightWhenItsStepIsSettled) {
  LeaderRun run(64, 4, limits(8, 4));
  const RequestId id = run.add(prompt_of(30), 3);
  run.plan();
  run.plan();
  run.leader.cancel(id);
  EXPECT_TRUE(run.plan().tokens.empty());
  EXPECT_EQ(run.told[id].ends, 0);
  EXPECT_GT(run.leader.status().used_blocks, 0U) << "the ranks still write to them";
  run.settle();
  EXPECT_EQ(run.told[id].ends, 0);
  run.settle();
  EXPECT_TRUE(run.told[id].ended_with<RequestCancelled>());
  expect_all_free(run);
}

TEST(Leader, LeavesWhatIsInFlightInTheCacheWhenItIsFull) {
  LeaderRun run(6, 4, limits(8, 4));
  const RequestId first = run.add(prompt_of(8, 0), 12);
  const RequestId second = run.add(prompt_of(8, 50), 12);
  std::vector<Forward> planned;
  while (run.leader.has_work()) {
    ASSERT_LT(run.steps, 1000U);
    while (run.in_flight() < 2 && !run.plan().tokens.empty()) continue;
    run.settle();
  }
  EXPECT_GT(run.leader.status().preemptions, 0U) << "the test proves nothing";
  EXPECT_EQ(run.told[first].tokens[0], continuation(prompt_of(8, 0), 12));
  EXPECT_EQ(run.told[second].tokens[0], continuation(prompt_of(8, 50), 12));
}

TEST(Leader, LetsShorterOnesPassALongPromptThatDoesNotFitButNotForEver) {
  LeaderRun run(20, 4, limits(64, 8));
  run.add(prompt_of(40, 0), 20);  // takes 10 to 15 of 20 blocks for a while
  run.step();
  const RequestId big = run.add(prompt_of(60, 20), 2);
  std::vector<RequestId> small;
  for (std::size_t i = 0; i < 2 * Scheduler::kMaxOvertaken; ++i)
    small.push_back(run.add({static_cast<TokenId>(i % 90), static_cast<TokenId>(i / 90)}, 1));
  std::size_t before = 0;  // that ended before the big one had a token
  while (run.leader.has_work()) {
    ASSERT_LT(run.steps, 1000U);
    run.step();
    if (!run.told[big].tokens.empty()) continue;
    before = static_cast<std::size_t>(
        std::ranges::count_if(small, [&](RequestId id) { return run.told[id].ends == 1; }));
  }
  EXPECT_EQ(before, Scheduler::kMaxOvertaken);
  EXPECT_EQ(run.told[big].tokens[0], continuation(prompt_of(60, 20), 2));
}

TEST(Leader, PublishesNothingOfAChunkWhoseLogitsAreNotNumbers) {
  LeaderRun run(64, 4, limits(8, 4));
  run.worker.spoilt_token = 17;
  const RequestId spoilt = run.add(prompt_of(20), 3);  // in the third chunk
  run.run();
  EXPECT_EQ(run.told[spoilt].reasons[0], FinishReason::error);
  EXPECT_EQ(run.told[spoilt].errors[0].find("cannot choose a token: the model's logits are not numbers"), 0U);
  EXPECT_TRUE(run.told[spoilt].tokens.empty());
  EXPECT_TRUE(run.told[spoilt].ended_with<RequestFinished>());
  run.worker.spoilt_token = -1;
  const RequestId again = run.add(prompt_of(22), 3);
  run.run();
  EXPECT_EQ(run.told[again].cached_tokens, 16U) << "the chunks before that are sound";
  EXPECT_EQ(run.told[again].tokens[0], continuation(prompt_of(22), 3));
}

TEST(Leader, ScoresAPromptBesideRunningRequests) {
  LeaderRun run(64, 4, limits(8, 4));
  const RequestId generating = run.add(prompt_of(6, 50), 12);
  const std::vector<TokenId> prompt = prompt_of(30);
  const RequestId all = run.add(scoring(prompt, 1));
  const RequestId end = run.add(scoring(prompt, 29));
  run.run();
  EXPECT_EQ(run.told[generating].tokens[0], continuation(prompt_of(6, 50), 12));
  EXPECT_EQ(run.told[all].first_logprob, 1U);
  EXPECT_EQ(run.told[all].logprobs, logprobs_of(prompt, 1));
  EXPECT_EQ(run.told[end].logprobs, logprobs_of(prompt, 29));
  for (const RequestId id : {all, end}) {
    EXPECT_TRUE(run.told[id].tokens.empty());
    EXPECT_TRUE(run.told[id].ended_with<RequestFinished>());
  }
  expect_all_free(run);
}

TEST(Leader, TakesFromTheCacheOnlyWhatNeedNotBeScored) {
  LeaderRun run(64, 4, limits(64, 4));
  const std::vector<TokenId> prompt = prompt_of(30);
  run.add(prompt, 1);
  run.run();
  const auto computed_for = [&](Request request) {
    const std::size_t before = run.computed_tokens;
    const RequestId id = run.add(std::move(request));
    run.run();
    EXPECT_EQ(run.told[id].logprobs, logprobs_of(prompt, run.told[id].first_logprob));
    return run.computed_tokens - before;
  };
  // Nothing comes after the last token: it only has to be predicted.
  EXPECT_EQ(computed_for(scoring(prompt, 1)), 29U);
  EXPECT_EQ(computed_for(scoring(prompt, 12)), 29U - 8);  // the row of position 11 is in the third block
  EXPECT_EQ(computed_for(scoring(prompt, 13)), 29U - 12);
  EXPECT_EQ(computed_for(scoring(prompt, 13, 3)), 30U - 12 + 2);  // and continues it
}

TEST(Leader, ScoresAndContinuesInTightCachesWithoutSayingAnythingTwice) {
  LeaderRun run(8, 4, limits(4, 4));
  std::map<RequestId, std::vector<TokenId>> prompts;
  for (TokenId i = 0; i < 4; ++i) {
    const std::vector<TokenId> prompt = prompt_of(18, 20 * i);
    prompts[run.add(scoring(prompt, 3, 8))] = prompt;
  }
  run.run();
  EXPECT_GT(run.leader.status().preemptions, 0U) << "the test proves nothing";
  for (const auto& [id, prompt] : prompts) {
    EXPECT_EQ(run.told[id].logprobs, logprobs_of(prompt, 3));
    EXPECT_EQ(run.told[id].tokens[0], continuation(prompt, 8));
  }
}

TEST(Leader, EndsAScoredRequestWhoseLogitsAreNotNumbers) {
  LeaderRun run(64, 4, limits(8, 4));
  run.worker.spoilt_token = 10;
  const RequestId id = run.add(scoring(prompt_of(30), 1));
  run.run();
  EXPECT_EQ(run.told[id].logprobs.size(), 8U) << "the first chunk is sound";
  EXPECT_EQ(run.told[id].errors[0].find("cannot tell the probability of token 9: the model's logits"), 0U);
  EXPECT_TRUE(run.told[id].ended_with<RequestFinished>());
}

TEST(Leader, GivesTheLogitsOfEveryPositionInBoundedPieces) {
  LeaderRun run(64, 4, limits(200, 4));
  Request request;
  request.prompt = prompt_of(90);
  request.prompt_logits = true;
  request.max_tokens = 0;
  const RequestId id = run.add(request);
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{64});
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{26});
  std::vector<float> expected;
  for (std::size_t i = 0; i < 90; ++i) {
    expected.push_back(static_cast<float>(i));
    expected.push_back(static_cast<float>(request.prompt[i]));
  }
  EXPECT_EQ(run.told[id].logits, expected);
  EXPECT_TRUE(run.told[id].ended_with<RequestFinished>());
}

TEST(Leader, TakesRequestsFromAnyThread) {
  LeaderRun run(256, 4, limits(16, 8));
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::map<RequestId, std::vector<TokenId>> found;
  std::map<RequestId, int> ends;
  for (TokenId thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (TokenId i = 0; i < 50; ++i) {
        Request request;
        request.prompt = prompt_of(5, 10 * thread + i);
        request.max_tokens = 3;
        const RequestId id = run.leader.submit(std::move(request), [&](const Event& event) {
          const std::lock_guard lock(mutex);
          if (const auto* token = std::get_if<TokenEvent>(&event))
            found[token->request].push_back(token->token);
          else
            std::visit([&](const auto& end) { ++ends[end.request]; }, event);
        });
        if (i % 5 == 0) run.leader.cancel(id);
        run.leader.status();
      }
    });
  }
  std::size_t steps = 0;
  while (ends.size() < 200) {
    ASSERT_LT(++steps, 100000000U);
    run.step();
    const std::lock_guard lock(mutex);
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [id, count] : ends) EXPECT_EQ(count, 1) << id;
  expect_all_free(run);
}

TEST(Leader, TellsWhenThingsHappened) {
  LeaderRun run(64, 4, limits(4, 4));
  const RequestId id = run.add(prompt_of(10), 2);
  run.run();
  ASSERT_TRUE(run.told[id].ended_with<RequestFinished>());
  const RequestTimes& times = std::get<RequestFinished>(*run.told[id].end).times;
  EXPECT_NE(times.queued, RequestTimes::Clock::time_point{});
  EXPECT_LE(times.queued, times.first_scheduled);
  EXPECT_LE(times.first_scheduled, times.first_token);
  EXPECT_LE(times.first_token, times.finished);
}

TEST(Leader, CountsWhatThePrefixCacheWasAskedForAndHeld) {
  LeaderRun run(64, 4, limits(64, 4));
  run.add(prompt_of(18), 1);
  run.run();
  EXPECT_EQ(run.leader.status().prefix_queries, 18U);
  EXPECT_EQ(run.leader.status().prefix_hits, 0U);
  run.add(prompt_of(18), 1);
  run.step();
  EXPECT_EQ(run.leader.status().prefix_queries, 36U);
  EXPECT_EQ(run.leader.status().prefix_hits, 16U);
  EXPECT_EQ(run.leader.status().last_step_tokens, 2U);
}

TEST(Leader, RefusesInTheCallerWhatCanNeverBeServed) {
  LeaderRun run(8, 4, limits(8, 4));
  EXPECT_THROW(run.add(prompt_of(40), 1), RequestError);
  EXPECT_THROW(run.add({}, 1), RequestError);
  EXPECT_THROW(run.add({200}, 1), RequestError);
  EXPECT_THROW(run.add(scoring(prompt_of(4), 4)), RequestError);
  EXPECT_FALSE(run.leader.has_work());
}

// A sink may submit the next request of its conversation.
TEST(Leader, LetsASinkSubmit) {
  LeaderRun run(64, 4, limits(8, 4));
  RequestId second = 0;
  Request request;
  request.prompt = prompt_of(3);
  request.max_tokens = 1;
  run.leader.submit(request, [&](const Event& event) {
    if (std::holds_alternative<RequestFinished>(event)) second = run.add(prompt_of(5), 2);
  });
  run.run();
  EXPECT_TRUE(run.told[second].ended_with<RequestFinished>());
}

TEST(Leader, EndsAtTheRequestsTokensAndTellsWhichOne) {
  LeaderRun run(64, 4, limits(8, 4));
  const std::vector<TokenId> tokens = continuation(prompt_of(6), 8);
  Request request;
  request.prompt = prompt_of(6);
  request.max_tokens = 8;
  request.stop_token_ids = {tokens[3], 150};
  const RequestId id = run.add(request);
  request.ignore_eos = true;
  const RequestId ignoring = run.add(request);
  run.run();
  const std::size_t size = run.told[id].tokens[0].size();
  EXPECT_LE(size, 4U);
  EXPECT_EQ(run.told[id].tokens[0],
            std::vector<TokenId>(tokens.begin(), tokens.begin() + static_cast<int>(size)));
  EXPECT_EQ(run.told[id].reasons[0], FinishReason::stop);
  EXPECT_EQ(std::get<TokenId>(run.told[id].matched_stop), tokens[3]);
  EXPECT_EQ(run.told[ignoring].tokens[0], tokens);
}

TEST(Leader, BansEndingTokensBeforeMinTokens) {
  LeaderRun run(64, 4, limits(8, 4));
  const std::vector<TokenId> tokens = continuation(prompt_of(6), 1);
  Request request;
  request.prompt = prompt_of(6);
  request.max_tokens = 8;
  request.min_tokens = 3;
  request.stop_token_ids = {tokens[0]};
  run.add(request);
  for (int token = 0; token < 4; ++token) {
    const Forward forward = run.step();
    ASSERT_EQ(forward.outputs.size(), 1U);
    const auto& banned = std::get<want::Choose>(forward.outputs[0].want).banned;
    EXPECT_EQ(banned,
              token < 3 ? (std::vector<TokenId>{LeaderRun::kEos, tokens[0]}) : std::vector<TokenId>{});
  }
}

TEST(Leader, BansWhatWouldCompleteABadWord) {
  LeaderRun run(64, 4, limits(8, 4));
  const std::vector<TokenId> tokens = continuation(prompt_of(6), 3);
  Request request;
  request.prompt = prompt_of(6);
  request.max_tokens = 3;
  request.bad_words_ids = {{tokens[1], tokens[2]}, {prompt_of(6).back(), tokens[0]}, {98}};
  const RequestId id = run.add(request);
  const auto banned = [](const Forward& forward) {
    return std::get<want::Choose>(forward.outputs.at(0).want).banned;
  };
  EXPECT_EQ(banned(run.step()), std::vector<TokenId>{98}) << "the prompt is not part of what is avoided";
  EXPECT_EQ(banned(run.step()), std::vector<TokenId>{98});
  EXPECT_EQ(banned(run.step()), (std::vector<TokenId>{tokens[2], 98}));
  EXPECT_EQ(run.told[id].tokens[0], (std::vector<TokenId>{tokens[0], tokens[1], tokens[2] + 1}));
}

// The mask is made while the ranks are busy: planning does not wait for it, choosing does.
TEST(Leader, AwaitsAMaskOnlyWhenATokenIsChosen) {
  LeaderRun run(64, 4, limits(8, 4));
  std::promise<void> planned;
  const std::shared_future<void> is_planned = planned.get_future().share();
  Request request;
  request.prompt = prompt_of(6);
  request.max_tokens = 2;
  std::vector<std::vector<TokenId>> asked;
  request.allowed_tokens = [&](std::span<const TokenId> generated) {
    EXPECT_EQ(is_planned.wait_for(std::chrono::seconds(60)), std::future_status::ready);
    asked.emplace_back(generated.begin(), generated.end());
    TokenMask mask(LeaderRun::kVocabulary);
    mask.add(generated.empty() ? 11 : 22);
    return mask;
  };
  const RequestId id = run.add(request);
  const PlannedStep step = run.leader.plan();
  planned.set_value();
  run.leader.settle(step,
                    run.worker.run(step.forward, [&](std::size_t output) { return step.mask(output); }));
  run.run();
  EXPECT_EQ(run.told[id].tokens[0], (std::vector<TokenId>{11, 22}));
  EXPECT_EQ(asked, (std::vector<std::vector<TokenId>>{{}, {11}}));
}

TEST(Leader, EndsARequestWhoseMaskFailsOrAllowsNothing) {
  LeaderRun run(64, 4, limits(8, 4));
  Request request;
  request.prompt = prompt_of(6);
  request.max_tokens = 3;
  request.allowed_tokens = [](std::span<const TokenId>) -> TokenMask {
    throw std::runtime_error("the grammar has no end");
  };
  const RequestId failing = run.add(request);
  request.allowed_tokens = [](std::span<const TokenId>) { return TokenMask(LeaderRun::kVocabulary); };
  const RequestId strict = run.add(request);
  const RequestId other = run.add(prompt_of(6, 50), 3);
  run.run();
  EXPECT_EQ(run.told[failing].errors[0], "the grammar has no end");
  EXPECT_EQ(run.told[strict].errors[0].find("cannot choose a token: the request rules out every token"), 0U);
  EXPECT_EQ(run.told[other].tokens[0], continuation(prompt_of(6, 50), 3));
  for (const auto& [id, told] : run.told) EXPECT_TRUE(told.ended_with<RequestFinished>());
}

}  // namespace
}  // namespace tp

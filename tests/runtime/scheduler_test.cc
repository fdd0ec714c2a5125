#include "runtime/scheduler.h"

#include "tests/reference/random.h"
#include "tests/runtime/scheduled_run.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Random;
using test::continuation;
using test::ScheduledRun;

std::vector<TokenId> prompt_of(std::size_t size, TokenId first = 0) {
  std::vector<TokenId> prompt(size);
  for (std::size_t i = 0; i < size; ++i) prompt[i] = first + static_cast<TokenId>(i);
  return prompt;
}

SchedulerLimits limits(std::size_t chunk, std::size_t sequences) {
  return {.prefill_chunk = chunk,
          .step_tokens = std::max(chunk, sequences),
          .max_sequences = sequences,
          .vocab_size = 100};
}

std::vector<std::size_t> chunk_sizes(const Step& step) {
  std::vector<std::size_t> sizes;
  for (const SequenceChunk& chunk : step.chunks) sizes.push_back(chunk.tokens);
  return sizes;
}

TEST(Scheduler, WithoutWorkPlansAnEmptyStep) {
  ScheduledRun run(8, 4, limits(16, 4));
  EXPECT_FALSE(run.scheduler().has_work());
  EXPECT_TRUE(run.step().tokens.empty());
}

TEST(Scheduler, CutsAPromptIntoChunksAndWantsLogitsAfterTheLast) {
  ScheduledRun run(16, 4, limits(8, 4));
  run.add(prompt_of(19), 3);
  const Step first = run.step();
  EXPECT_EQ(chunk_sizes(first), std::vector<std::size_t>{8});
  EXPECT_TRUE(first.outputs.empty());
  EXPECT_TRUE(first.chunks[0].first_chunk);
  const Step second = run.step();
  EXPECT_EQ(second.chunks[0].start_position, 8U);
  EXPECT_FALSE(second.chunks[0].first_chunk);
  EXPECT_TRUE(second.outputs.empty());
  const Step third = run.step();
  EXPECT_EQ(chunk_sizes(third), std::vector<std::size_t>{3});
  ASSERT_EQ(third.outputs.size(), 1U);
  EXPECT_EQ(third.outputs[0].row, 2U);
  EXPECT_EQ(third.outputs[0].candidates, 1U);  // greedy
  EXPECT_EQ(chunk_sizes(run.step()), std::vector<std::size_t>{1});
  run.run();
  EXPECT_EQ(run.finished.begin()->second.generated, continuation(prompt_of(19), 3));
  EXPECT_EQ(run.blocks().free_blocks(), run.blocks().num_blocks());
}

TEST(Scheduler, TakesDecodingSequencesBeforePromptChunks) {
  ScheduledRun run(64, 4, limits(8, 4));
  run.add(prompt_of(3, 0), 20);
  run.add(prompt_of(40, 50), 20);
  run.step();  // 3 tokens of the first, 5 of the second
  const Step step = run.step();
  EXPECT_EQ(chunk_sizes(step), (std::vector<std::size_t>{1, 7}));
  EXPECT_EQ(step.outputs.size(), 1U);
}

TEST(Scheduler, FillsAStepWithSeveralPromptsFirstComeFirstServed) {
  ScheduledRun run(64, 4, limits(10, 4));
  run.add(prompt_of(4, 0), 2);
  run.add(prompt_of(3, 10), 2);
  run.add(prompt_of(9, 20), 2);
  const Step step = run.step();
  EXPECT_EQ(chunk_sizes(step), (std::vector<std::size_t>{4, 3, 3}));
  EXPECT_EQ(step.tokens, (std::vector<TokenId>{0, 1, 2, 3, 10, 11, 12, 20, 21, 22}));
  EXPECT_EQ(step.outputs.size(), 2U);
}

TEST(Scheduler, WorksOnAtMostMaxSequencesAtOnce) {
  ScheduledRun run(64, 4, limits(64, 2));
  for (int i = 0; i < 5; ++i) run.add(prompt_of(4, 10 * i), 3);
  EXPECT_EQ(run.step().chunks.size(), 2U);
  run.run();
  EXPECT_EQ(run.finished.size(), 5U);
}

// More sequences than the chunk has tokens: a step still serves all of them.
TEST(Scheduler, LetsEverySequenceDecodeInEveryStepEvenWithASmallChunk) {
  ScheduledRun run(64, 4, limits(2, 6));
  for (int i = 0; i < 6; ++i) run.add(prompt_of(2, 10 * i), 30);
  while (run.step().outputs.size() < 6) {
    ASSERT_LT(run.steps, 10U);
  }
  EXPECT_EQ(run.step().outputs.size(), 6U);
}

TEST(Scheduler, SamplesOfARequestWaitForTheirPromptAndShareItsBlocks) {
  ScheduledRun run(64, 4, limits(8, 8));
  run.add(prompt_of(18), 4, 5);
  EXPECT_EQ(run.step().chunks.size(), 1U);
  EXPECT_EQ(run.step().chunks.size(), 1U);
  // The prompt's last two tokens; from the next step on the others take them from the cache, all but the last
  // block's.
  run.step();
  const Step shared = run.step();
  EXPECT_EQ(chunk_sizes(shared), (std::vector<std::size_t>{1, 2, 2, 2, 1}));
  run.run();
  ASSERT_EQ(run.finished.size(), 5U);
  for (const auto& [id, result] : run.finished) EXPECT_EQ(result.generated, continuation(prompt_of(18), 4));
  EXPECT_EQ(run.computed_tokens, 18U + 4 * 2 + 5 * 3);  // the prompt once, and four times its last two tokens
  EXPECT_LE(run.most_blocks, 4U + 5 * 2);               // 16 tokens shared, 6 of each sample's own
}

// Neither memory nor the work of a step grows with the samples that wait: they are not there yet.
TEST(Scheduler, MakesSequencesOfThoseSamplesAloneThatHaveTheirTurn) {
  constexpr int kSamples = 2000;
  ScheduledRun run(16, 4, limits(8, 4));
  const std::uint64_t many = run.add(prompt_of(9), 3, kSamples);
  const std::uint64_t next = run.add(prompt_of(5, 50), 3, kSamples);
  std::size_t most = 0;
  while (run.scheduler().has_work()) {
    run.step();
    // Those that run, one that waits for room in the cache, and the queue.
    most = std::max(most, run.holders(many) + run.holders(next));
    ASSERT_LE(most, 4U + 1 + 2);
    ASSERT_LT(run.steps, 10000U);
  }
  EXPECT_GE(most, 4U + 2);
  ASSERT_EQ(run.finished.size(), 2U * kSamples);
  for (const auto& [id, result] : run.finished)
    EXPECT_EQ(result.generated, continuation(id.first == many ? prompt_of(9) : prompt_of(5, 50), 3));
}

TEST(Scheduler, PreemptsTheLastSequenceWhenTheCacheIsFullAndLosesNothing) {
  ScheduledRun run(6, 4, limits(16, 4));  // 24 tokens of cache, 30 wanted
  run.add(prompt_of(4, 0), 11);
  run.add(prompt_of(4, 50), 11);
  bool told = false;
  while (run.scheduler().has_work()) {
    const Step step = run.step();
    told |= !step.ended.empty() && run.finished.empty();
    ASSERT_LT(run.steps, 200U);
  }
  EXPECT_TRUE(told) << "nothing was preempted: the test proves nothing";
  ASSERT_EQ(run.finished.size(), 2U);
  EXPECT_EQ(run.finished[std::pair(std::uint64_t{1}, 0)].generated, continuation(prompt_of(4, 0), 11));
  EXPECT_EQ(run.finished[std::pair(std::uint64_t{3}, 0)].generated, continuation(prompt_of(4, 50), 11));
}

TEST(Scheduler, ServesASequenceThatFillsTheWholeCache) {
  ScheduledRun run(6, 4, limits(16, 4));
  run.add(prompt_of(10), 14);
  run.add(prompt_of(20, 30), 4);
  run.run();
  EXPECT_EQ(run.finished.size(), 2U);
}

TEST(Scheduler, CancelsWhatRunsAndWhatWaits) {
  ScheduledRun run(32, 4, limits(16, 2));
  const std::uint64_t running = run.add(prompt_of(4, 0), 50);
  const std::uint64_t kept = run.add(prompt_of(4, 20), 5);
  const std::uint64_t waiting = run.add(prompt_of(4, 40), 50, 3);
  run.step();
  run.scheduler().cancel(running);
  run.scheduler().cancel(waiting);
  run.scheduler().cancel(12345);  // of no request
  const Step step = run.step();
  EXPECT_EQ(step.ended, std::vector<SequenceId>{running + 1});  // the ranks never heard of the others
  run.run();
  EXPECT_EQ(run.finished.size(), 1U);
  EXPECT_EQ(run.finished.begin()->first.first, kept);
  EXPECT_EQ(run.blocks().free_blocks(), run.blocks().num_blocks());
}

TEST(Scheduler, MakesTheSamplesOneAfterTheOtherIfTheCacheHoldsOnlyOne) {
  ScheduledRun run(4, 4, limits(4, 3));
  run.add(prompt_of(12), 4, 3);
  run.run();
  EXPECT_EQ(run.finished.size(), 3U);
}

// Random requests with common beginnings, samples and cancellations in caches that are often too small: every
// text is what a model would write that saw this request alone, and the cache never holds anything else than
// what a sequence thinks.
TEST(Scheduler, GivesEverySequenceItsOwnTextWhateverElseRuns) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const std::size_t block_size = random.integer(1, 6);
    const std::size_t cache_tokens = random.integer(30, 90);
    ScheduledRun run((cache_tokens + block_size - 1) / block_size, block_size,
                     limits(random.integer(1, 20), random.integer(1, 6)));
    std::map<std::uint64_t, std::pair<std::vector<TokenId>, std::size_t>> requests;
    std::size_t expected = 0;
    for (std::size_t i = random.integer(1, 8); i > 0; --i) {
      const std::vector<TokenId> prompt = prompt_of(random.integer(1, 20), random.coin() ? 0 : 40);
      const std::size_t max_tokens = random.integer(1, 10);
      const int samples = static_cast<int>(random.integer(1, 3));
      const std::uint64_t id = run.add(prompt, max_tokens, samples);
      requests[id] = {prompt, max_tokens};
      expected += static_cast<std::size_t>(samples);
      for (std::size_t steps = random.integer(0, 4); steps > 0; --steps) {
        if (run.scheduler().has_work()) run.step();
      }
    }
    run.run();
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_EQ(run.finished.size(), expected);
    for (const auto& [id, result] : run.finished) {
      const auto& [prompt, max_tokens] = requests[id.first];
      EXPECT_EQ(result.generated, continuation(prompt, max_tokens)) << "request " << id.first;
    }
    EXPECT_EQ(run.blocks().free_blocks(), run.blocks().num_blocks());
  }
}

}  // namespace
}  // namespace tp

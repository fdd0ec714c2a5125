// How many blocks sequences own if layers have windows, and that sequences still find everything they attend
// to.
#include "tests/error_of.h"
#include "tests/runtime/scheduling/leader_run.h"
#include "tp/error.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::continuation;
using test::LeaderRun;
using test::limits_of;

std::vector<TokenId> prompt_of(std::size_t size, TokenId first = 0) {
  std::vector<TokenId> prompt(size);
  for (std::size_t i = 0; i < size; ++i) prompt[i] = (first + static_cast<TokenId>(i * i)) % 97;
  return prompt;
}

void expect_continued(LeaderRun& run, RequestId id, const std::vector<TokenId>& prompt, std::size_t tokens) {
  EXPECT_TRUE(run.received[id].ended_with<RequestFinished>());
  EXPECT_EQ(run.received[id].tokens[0], continuation(prompt, tokens));
}

TEST(LeaderWindow, HoldsOfWindowedLayersTheWindowsBlocksOnly) {
  LeaderRun run(200, 4, limits_of(8, 4), {std::nullopt, 10});
  const RequestId id = run.add(prompt_of(300), 20);
  run.run();
  expect_continued(run, id, prompt_of(300), 20);
  // 319 tokens are computed, and the next one would attend to 9 of them.
  EXPECT_EQ(run.max_blocks, 80U + 3);
}

TEST(LeaderWindow, GeneratesTextsLongerThanTheCacheIfAllLayersHaveWindows) {
  // Four blocks hold 7 tokens of the window and a chunk of 6, wherever blocks begin.
  LeaderRun run(4, 4, limits_of(6, 1), {8});
  const RequestId id = run.add(prompt_of(200), 100);
  run.run();
  expect_continued(run, id, prompt_of(200), 100);
  EXPECT_EQ(run.leader.status().preemptions, 0U);
}

TEST(LeaderWindow, RejectsRequestsThatDoNotFitNextToTheWindow) {
  // The windowed layers use at most 5 of the 10 blocks.
  LeaderRun run(10, 4, limits_of(8, 1), {std::nullopt, 10});
  run.add(prompt_of(19), 1);
  run.run();
  EXPECT_EQ(
      test::error_of<TooLongError>([&] { run.add(prompt_of(20), 1); }),
      "prompt and continuation have up to 21 tokens but the cache has room for 20; lower `max_tokens` or "
      "raise `cache_tokens`");
}

TEST(LeaderWindow, SharesALongPromptWhoseWindowIsCached) {
  LeaderRun run(100, 4, limits_of(16, 4), {std::nullopt, 10});
  const RequestId first = run.add(prompt_of(120), 3);
  run.run();
  const std::size_t computed = run.computed_tokens;
  const RequestId again = run.add(prompt_of(120), 3);
  run.run();
  expect_continued(run, first, prompt_of(120), 3);
  expect_continued(run, again, prompt_of(120), 3);
  EXPECT_EQ(run.received[again].cached_tokens, 116U);
  EXPECT_EQ(run.computed_tokens - computed, 4U + 2);
}

TEST(LeaderWindow, ComputesALongPromptOnceForAllSamples) {
  LeaderRun run(100, 4, limits_of(16, 8), {10, 10, std::nullopt});
  const RequestId id = run.add(prompt_of(90), 5, 6);
  run.run();
  ASSERT_EQ(run.received[id].tokens.size(), 6U);
  for (const auto& [sample, tokens] : run.received[id].tokens)
    EXPECT_EQ(tokens, continuation(prompt_of(90), 5));
  // The other samples find the prompt except for the tokens of its last block.
  EXPECT_EQ(run.computed_tokens, 90U + 5 * 2 + 6 * 4);
}

TEST(LeaderWindow, ContinuesPreemptedSequences) {
  LeaderRun run(40, 4, limits_of(8, 4), {std::nullopt, 6});
  std::vector<RequestId> ids;
  for (TokenId i = 0; i < 4; ++i) ids.push_back(run.add(prompt_of(30, 20 * i), 30));
  run.run();
  for (TokenId i = 0; i < 4; ++i)
    expect_continued(run, ids[static_cast<std::size_t>(i)], prompt_of(30, 20 * i), 30);
  EXPECT_GT(run.leader.status().preemptions, 0U);
}

}  // namespace
}  // namespace tp

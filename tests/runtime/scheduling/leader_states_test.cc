// Recurrent layers: each sequence has its own state and may begin with a snapshot of another sequence. States
// and snapshots stay within their slots.
#include "runtime/cache/snapshots.h"
#include "tests/error_of.h"
#include "tests/runtime/scheduling/leader_run.h"
#include "tp/error.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::continuation;
using test::LeaderRun;
using test::limits_of;

std::vector<TokenId> make_text(std::size_t size, std::size_t common = 0, TokenId first = 0) {
  std::vector<TokenId> tokens(size);
  for (std::size_t i = 0; i < size; ++i)
    tokens[i] = ((i < common ? 0 : first) + static_cast<TokenId>(i * i)) % 97;
  return tokens;
}

LeaderRun recurrent(std::size_t blocks, LeaderOptions limits, std::size_t block_size = 4) {
  return LeaderRun(blocks, block_size, limits, {std::nullopt},
                   kStatesPerSequence * limits.engine.max_sequences);
}

void expect_text(LeaderRun& run, RequestId id, const std::vector<TokenId>& prompt, std::size_t tokens) {
  EXPECT_TRUE(run.received[id].ended_with<RequestFinished>());
  for (const auto& [sample, found] : run.received[id].tokens) EXPECT_EQ(found, continuation(prompt, tokens));
}

TEST(Snapshots, AreSparserInLongerTexts) {
  std::vector<std::size_t> blocks;
  for (std::size_t block = 0; block <= 1024; ++block) {
    if (is_snapshot_boundary(block)) blocks.push_back(block);
  }
  EXPECT_EQ(blocks, (std::vector<std::size_t>{16,  32,  48,  64,  80,  96,  112, 128, 160, 192,
                                              224, 256, 320, 384, 448, 512, 640, 768, 896, 1024}));
}

TEST(Snapshots, AreAtThePromptsLastBoundaryAndAtBranches) {
  const auto at = [](Range computed, std::size_t prompt, const std::vector<std::size_t>& others) {
    return snapshot_positions(computed, prompt, others, 4).kept;
  };
  EXPECT_EQ(at({0, 100}, 50, {}), (std::vector<std::size_t>{48, 64}));
  EXPECT_EQ(at({0, 47}, 50, {}), std::vector<std::size_t>());
  EXPECT_EQ(at({0, 48}, 50, {}), std::vector<std::size_t>{48});
  EXPECT_EQ(at({48, 63}, 50, {}), std::vector<std::size_t>());
  // The last token is always computed, so no state is kept after it.
  EXPECT_EQ(at({0, 12}, 12, {}), std::vector<std::size_t>{8});
  EXPECT_EQ(at({0, 12}, 13, {}), std::vector<std::size_t>{12});
  EXPECT_EQ(at({2, 30}, 40, {4, 20, 32}), (std::vector<std::size_t>{4, 20}));
}

TEST(Snapshots, FollowTheEndOfTheGeneratedText) {
  const auto latest = [](Range computed, std::size_t prompt) {
    return snapshot_positions(computed, prompt, {}, 4).latest;
  };
  EXPECT_EQ(latest({0, 49}, 50), std::nullopt) << "48 is kept";
  EXPECT_EQ(latest({48, 51}, 50), std::nullopt) << "no boundary";
  EXPECT_EQ(latest({51, 52}, 50), 52U);
  EXPECT_EQ(latest({63, 64}, 50), std::nullopt) << "64 is kept";
  EXPECT_EQ(latest({48, 61}, 50), 60U) << "as after a preemption";
  EXPECT_EQ(latest({48, 66}, 50), std::nullopt) << "64 is kept, and later than 60";
}

TEST(LeaderStates, FindAPromptUpToItsLastBoundary) {
  LeaderRun run = recurrent(200, limits_of(16, 4));
  run.add(make_text(90), 3);
  run.run();
  const std::size_t computed = run.computed_tokens;
  const RequestId again = run.add(make_text(90), 3);
  run.run();
  expect_text(run, again, make_text(90), 3);
  EXPECT_EQ(run.received[again].cached_tokens, 88U);
  EXPECT_EQ(run.computed_tokens - computed, 2U + 2);
}

// The prompt is the next turn of a chat.
TEST(LeaderStates, GoOnFromTheEndOfAnAnswer) {
  LeaderRun run = recurrent(200, limits_of(16, 4));
  const std::vector<TokenId> prompt = make_text(30);
  run.add(prompt, 45);
  run.run();
  std::vector<TokenId> next = prompt;
  const std::vector<TokenId> answer = continuation(prompt, 45);
  next.insert(next.end(), answer.begin(), answer.end());
  next.insert(next.end(), {7, 8, 9});
  const std::size_t computed = run.computed_tokens;
  const RequestId id = run.add(next, 1);
  run.run();
  expect_text(run, id, next, 1);
  EXPECT_EQ(run.received[id].cached_tokens, 72U) << "of 74, as the answer's last token was not computed";
  EXPECT_EQ(run.computed_tokens - computed, next.size() - 72);
  EXPECT_EQ(run.leader.status().snapshot_hits, 1U);
}

TEST(LeaderStates, TakeOneSlotForAnAnswerOfAnyLength) {
  LeaderRun run = recurrent(200, limits_of(16, 1));
  run.add(make_text(30), 1);
  run.run();
  run.add(make_text(31, 0, 5), 30);
  run.run();
  const LeaderStatus status = run.leader.status();
  EXPECT_EQ(status.states, 4U);
  EXPECT_EQ(status.snapshots, 3U) << "of both prompts, and of the end of the answer";
  const RequestId again = run.add(make_text(30), 1);
  run.run();
  EXPECT_EQ(run.received[again].cached_tokens, 28U);
}

TEST(LeaderStates, FindAPrefixUpToASnapshotOnly) {
  LeaderRun run = recurrent(200, limits_of(16, 4));
  run.add(make_text(250), 3);
  run.run();
  const std::vector<TokenId> prompt = make_text(250, 150, 5);
  const RequestId other = run.add(prompt, 3);
  run.run();
  expect_text(run, other, prompt, 3);
  EXPECT_EQ(run.received[other].cached_tokens, 128U)
      << "148 tokens have blocks, 128 have a state behind them";
}

TEST(LeaderStates, KeepTheStateAtTheBranchOfAWaitingSequence) {
  LeaderRun run = recurrent(200, limits_of(16, 4));
  const std::vector<TokenId> prompt = make_text(120, 102, 5);
  const RequestId first = run.add(make_text(120), 3);
  const RequestId second = run.add(prompt, 3);
  run.run();
  expect_text(run, first, make_text(120), 3);
  expect_text(run, second, prompt, 3);
  EXPECT_EQ(run.received[second].cached_tokens, 100U);
}

TEST(LeaderStates, ComputeAPromptOnceForAllSamples) {
  for (const std::size_t chunk : {5U, 16U, 200U}) {
    LeaderRun run = recurrent(400, limits_of(chunk, 8));
    const RequestId id = run.add(make_text(90), 5, 6);
    run.run();
    expect_text(run, id, make_text(90), 5);
    EXPECT_EQ(run.received[id].tokens.size(), 6U);
    EXPECT_EQ(run.computed_tokens, 90U + 5 * 2 + 6 * 4) << chunk;
  }
}

TEST(LeaderStates, ComeBackAfterAPreemption) {
  LeaderRun run = recurrent(40, limits_of(16, 4));
  std::vector<RequestId> ids;
  for (TokenId i = 0; i < 6; ++i) ids.push_back(run.add(make_text(50, 0, 7 * i), 60));
  run.run();
  for (std::size_t i = 0; i < ids.size(); ++i)
    expect_text(run, ids[i], make_text(50, 0, 7 * static_cast<TokenId>(i)), 60);
  EXPECT_GT(run.leader.status().preemptions, 0U);
}

TEST(LeaderStates, EvictSnapshotsAndNeverRunOutOfSlots) {
  // Blocks have one token, so a step could request more copies than there are slots.
  LeaderRun run = recurrent(2000, limits_of(400, 2), 1);
  for (TokenId i = 0; i < 12; ++i) {
    const RequestId id = run.add(make_text(300, 0, 3 * i), 40);
    run.run();
    expect_text(run, id, make_text(300, 0, 3 * i), 40);
  }
}

TEST(LeaderStates, AreFreeAfterCancellation) {
  LeaderRun run = recurrent(200, limits_of(16, 1));
  const RequestId id = run.add(make_text(100), 50);
  for (int i = 0; i < 4; ++i) run.step();
  run.leader.cancel(id);
  const RequestId next = run.add(make_text(100), 5);
  run.run();
  EXPECT_TRUE(run.received[id].ended_with<RequestCancelled>());
  expect_text(run, next, make_text(100), 5);
}

TEST(LeaderStates, RefuseBidirectionalAttention) {
  LeaderRun run = recurrent(200, limits_of(16, 4));
  Request request;
  request.prompt = make_text(8);
  request.max_tokens = 0;
  request.prompt_logits = true;
  request.bidirectional = true;
  EXPECT_EQ(test::error_of<RequestError>([&] { run.add(request); }),
            "bidirectional attention was asked for, but model has recurrent layers, in which a token "
            "sees only earlier tokens; use causal attention");
}

}  // namespace
}  // namespace tp

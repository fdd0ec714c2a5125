// Passes over a text that share keys and values: which blocks are kept, for how long, and which passes wait
// for them.
#include "runtime/scheduling/leader.h"
#include "tests/runtime/scheduling/leader_run.h"

#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::prompt_of;

constexpr RequestId kKey = 1000000;

// A leader that computes each text as a whole, in blocks of 4 tokens.
class Passes : public test::PassRun {
 public:
  explicit Passes(std::size_t blocks, std::size_t step_tokens = 64)
      : PassRun(LeaderOptions{.engine = {.model = "model",
                                         .prefill_chunk = step_tokens,
                                         .max_sequences = 4,
                                         .max_length = 1000},
                              .vocab_size = 200,
                              .eos_token_ids = {},
                              .kind = ModelKind::diffusion,
                              .bidirectional = true,
                              .diffusion = DiffusionSpec{},
                              .cache_blocks = blocks,
                              .cache = {.block_size = 4, .chunk = step_tokens},
                              .step_tokens = step_tokens,
                              .generates = false}) {}

  // Adds a pass that proposes a token at the last position.
  RequestId add(std::size_t tokens, PassCache cache = {}, int priority = 0) {
    Request request;
    request.prompt = prompt_of(tokens);
    request.candidates_at = {tokens - 1};
    request.priority = priority;
    return add_pass(std::move(request), {.place = Pass::Place::later, .cache = cache});
  }

  std::size_t used() const { return leader.status().used_blocks; }
};

TEST(Leader, ContinuesInThePreviousPasssBlocksAndSendsItsContext) {
  Passes passes(16);
  passes.add(18, {.key = kKey, .tokens = 18});
  const Forward first = passes.step();
  ASSERT_EQ(first.chunks.size(), 1U);
  EXPECT_EQ(first.chunks[0].start->context, 18U);
  EXPECT_EQ(passes.used(), 5U);
  passes.add(10, {.key = kKey, .is_filled = true, .begin = 7, .tokens = 18});
  const Forward second = passes.step();
  ASSERT_EQ(second.chunks.size(), 1U);
  EXPECT_EQ(second.ended, (std::vector<SequenceId>{first.chunks[0].sequence}));
  EXPECT_EQ(second.chunks[0].start_position, 7U);
  EXPECT_EQ(second.chunks[0].new_blocks, first.chunks[0].new_blocks);
  EXPECT_EQ(second.chunks[0].start->context, 18U);
  EXPECT_EQ(second.tokens, (std::vector<TokenId>{7, 8, 9}));
  EXPECT_EQ(passes.finished.size(), 2U);
  EXPECT_EQ(passes.used(), 5U);
  EXPECT_FALSE(passes.leader.has_work());
  passes.leader.release_passes(kKey);
  EXPECT_EQ(passes.used(), 0U);
  passes.leader.release_passes(kKey);
}

TEST(Leader, AlwaysContinuesAPassBeforeMoreUrgentRequests) {
  Passes passes(5);
  passes.add(18, {.key = kKey, .tokens = 18});
  passes.step();
  const RequestId waiting = passes.add(8, {}, -5);
  for (std::size_t i = 0; i < 3 * Scheduler::kMaxOvertaken; ++i) {
    const RequestId next = passes.add(18, {.key = kKey, .is_filled = true, .begin = 12, .tokens = 18}, 3);
    EXPECT_EQ(passes.step().tokens.size(), 6U);
    ASSERT_EQ(passes.finished.back(), next);
  }
  passes.leader.release_passes(kKey);
  passes.step();
  EXPECT_EQ(passes.finished.back(), waiting);
  EXPECT_EQ(passes.used(), 0U);
}

TEST(Leader, ComputesAWholeTextTogetherWithAContinuingPass) {
  Passes passes(12, 24);
  passes.add(18, {.key = kKey, .tokens = 18});
  passes.step();
  passes.add(18, {.key = kKey + 1, .tokens = 18});
  passes.add(18, {.key = kKey, .is_filled = true, .begin = 12, .tokens = 18});
  EXPECT_EQ(test::chunk_sizes(passes.step()), (std::vector<std::size_t>{6, 18}));
  EXPECT_EQ(passes.used(), 10U);
  for (const RequestId key : {kKey, kKey + 1}) passes.leader.release_passes(key);
  EXPECT_EQ(passes.used(), 0U);
}

// The blocks become free before the next step is planned. Otherwise that step would have no room.
TEST(Leader, ReleasesTheBlocksThatACancelledPassWouldHaveContinuedIn) {
  Passes passes(5);
  passes.add(18, {.key = kKey, .tokens = 18});
  passes.step();
  const RequestId waiting = passes.add(18);
  const RequestId next = passes.add(18, {.key = kKey, .is_filled = true, .begin = 12, .tokens = 18});
  passes.leader.cancel(next);
  passes.step();
  EXPECT_EQ(passes.cancelled, (std::vector<RequestId>{next}));
  EXPECT_EQ(passes.finished.back(), waiting);
  EXPECT_EQ(passes.used(), 0U);
}

TEST(Leader, KeepsNoBlocksOfAPassThatWasCancelledInAStep) {
  Passes passes(5);
  const RequestId pass = passes.add(18, {.key = kKey, .tokens = 18});
  const PlannedStep step = passes.leader.plan();
  passes.leader.cancel(pass);
  passes.leader.plan();
  EXPECT_EQ(passes.used(), 5U);
  Outputs outputs;
  outputs.results.emplace_back(std::vector<Proposal>(1));
  passes.leader.apply_results(step, outputs);
  EXPECT_EQ(passes.cancelled, (std::vector<RequestId>{pass}));
  EXPECT_EQ(passes.used(), 0U);
}

}  // namespace
}  // namespace tp

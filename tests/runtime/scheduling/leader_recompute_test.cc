// Models that recompute the whole sequence for every token.
#include "runtime/scheduling/leader.h"
#include "tests/runtime/scheduling/leader_run.h"
#include "tp/error.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::continuation;
using test::expect_all_free;
using test::LeaderRun;
using test::prompt_of;

LeaderRun recomputing(std::size_t step_tokens) {
  return LeaderRun(64, 4,
                   {.engine = {.prefill_chunk = step_tokens, .max_sequences = 4},
                    .recomputes = true,
                    .step_tokens = step_tokens,
                    .generates = false});
}

TEST(Leader, ComputesAllOfASequenceAgainForEveryToken) {
  LeaderRun run = recomputing(64);
  const RequestId id = run.add(prompt_of(6), 5);
  std::vector<std::size_t> sizes;
  while (run.leader.has_work()) {
    const Forward forward = run.plan();
    sizes.push_back(forward.tokens.size());
    for (const SequenceChunk& chunk : forward.chunks) EXPECT_EQ(chunk.start_position, 0U);
    run.finish_step();
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{6, 7, 8, 9, 10}));
  EXPECT_EQ(run.received[id].tokens[0], continuation(prompt_of(6), 5));
  EXPECT_EQ(run.leader.status().preemptions, 0U);
  expect_all_free(run);
}

// The sequences take turns, even samples of one request, because a step cannot recompute all of them.
TEST(Leader, RecomputesSeveralSequencesInTheStepsThatTheyNeed) {
  LeaderRun run = recomputing(20);
  const RequestId first = run.add(prompt_of(6), 7, 2);
  const RequestId second = run.add(prompt_of(9, 50), 4);
  const RequestId third = run.add(prompt_of(3, 20), 12);
  run.run();
  for (const int sample : {0, 1})
    EXPECT_EQ(run.received[first].tokens[sample], continuation(prompt_of(6), 7));
  EXPECT_EQ(run.received[second].tokens[0], continuation(prompt_of(9, 50), 4));
  EXPECT_EQ(run.received[third].tokens[0], continuation(prompt_of(3, 20), 12));
  expect_all_free(run);
}

TEST(Leader, EndsARecomputedSequenceThatIsCancelled) {
  LeaderRun run = recomputing(64);
  const RequestId id = run.add(prompt_of(6), 50);
  run.plan();
  run.finish_step();
  run.leader.cancel(id);
  run.run();
  EXPECT_TRUE(run.received[id].ended_with<RequestCancelled>());
  expect_all_free(run);
}

TEST(Leader, RejectsBidirectionalAttentionForStrictlyCausalLayers) {
  LeaderRun run = recomputing(64);
  Request request;
  request.prompt = prompt_of(6);
  request.max_tokens = 0;
  request.prompt_logits = true;
  request.bidirectional = true;
  EXPECT_THROW(run.add(std::move(request)), RequestError);
}

}  // namespace
}  // namespace tp

// Requests that continue the output of an earlier run.
#include "runtime/scheduling/leader.h"
#include "tests/runtime/scheduling/leader_run.h"
#include "tp/error.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::continuation;
using test::expect_all_free;
using test::LeaderRun;
using test::limits_of;
using test::prompt_of;

std::vector<TokenId> first(const std::vector<TokenId>& tokens, std::size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(std::min(count, tokens.size()))};
}

Request request_of(int max_tokens, int samples) {
  Request request;
  request.prompt = prompt_of(10);
  request.max_tokens = max_tokens;
  request.n = samples;
  request.sampling.temperature = 0.0F;
  return request;
}

TEST(Leader, ContinuesARequestAfterAnyNumberOfItsTokens) {
  const std::vector<TokenId> expected = continuation(prompt_of(10), 7);
  for (std::size_t begun = 0; begun <= expected.size(); ++begun) {
    LeaderRun run(64, 4, limits_of(8, 4));
    Request request = request_of(7, 1);
    request.generated = {first(expected, begun)};
    const RequestId id = run.add(request);
    run.run();
    EXPECT_EQ(run.received[id].tokens[0], expected) << begun;
    EXPECT_EQ(run.received[id].reasons[0], FinishReason::length);
    EXPECT_TRUE(run.received[id].ended_with<RequestFinished>());
    EXPECT_EQ(run.computed_tokens, begun == expected.size() ? 0U : 16U)
        << "generated tokens are computed in chunks";
    EXPECT_EQ(run.leader.status().generated_tokens, expected.size() - begun);
    EXPECT_EQ(run.leader.status().queued_requests, 0U);
    expect_all_free(run);
  }
}

// The first sample has ended, the second one has begun, and the third one has not.
TEST(Leader, ContinuesEverySampleWhereItWas) {
  const std::vector<TokenId> expected = continuation(prompt_of(10), 5);
  LeaderRun run(64, 4, limits_of(8, 4));
  Request request = request_of(5, 3);
  request.generated = {expected, first(expected, 2)};
  const RequestId id = run.add(request);
  const RequestId other = run.add(prompt_of(6, 50), 4);
  run.run();
  for (const int sample : {0, 1, 2}) EXPECT_EQ(run.received[id].tokens[sample], expected) << sample;
  EXPECT_EQ(run.received[other].tokens[0], continuation(prompt_of(6, 50), 4));
  EXPECT_TRUE(run.received[id].ended_with<RequestFinished>());
  EXPECT_EQ(run.leader.status().queued_requests, 0U);
  expect_all_free(run);
}

// The prompt and the generated tokens are kept apart, because bad words match generated tokens only.
TEST(Leader, BansWordsOnlyAfterGeneratedTokens) {
  const std::vector<TokenId> tokens = continuation(prompt_of(10), 3);
  LeaderRun run(64, 4, limits_of(32, 4));
  Request request = request_of(3, 1);
  request.bad_words_ids = {{tokens[1], tokens[2]}, {prompt_of(10).back(), 98}};
  request.generated = {first(tokens, 2)};
  run.add(request);
  const Forward forward = run.step();
  EXPECT_EQ(std::get<want::Choose>(forward.outputs.at(0).want).banned, std::vector<TokenId>{tokens[2]});
  run.run();
}

TEST(Leader, CancelsAContinuedRequestThatWaits) {
  LeaderRun run(64, 4, limits_of(8, 1));
  const RequestId running = run.add(prompt_of(6, 50), 4);
  run.step();
  Request request = request_of(5, 2);
  request.generated = {first(continuation(prompt_of(10), 5), 3)};
  const RequestId id = run.add(request);
  run.step();
  run.leader.cancel(id);
  run.run();
  EXPECT_TRUE(run.received[id].ended_with<RequestCancelled>());
  EXPECT_TRUE(run.received[running].ended_with<RequestFinished>());
  EXPECT_EQ(run.received[id].tokens[0].size(), 3U);
  expect_all_free(run);
}

TEST(Leader, RefusesGeneratedTokensThatNoRunCanHaveGenerated) {
  LeaderRun run(64, 4, limits_of(8, 4));
  Request request = request_of(3, 1);
  request.generated = {continuation(prompt_of(10), 4)};
  const RequestId id = run.add(request);
  run.run();
  EXPECT_EQ(run.received[id].errors[0],
            "`generated`: expected the tokens of an earlier run of this request: they go on after the end of "
            "the text");
  EXPECT_TRUE(run.received[id].ended_with<RequestFinished>());
  expect_all_free(run);

  request.generated = {{1}, {2}};
  EXPECT_THROW(run.add(request), RequestError);
  request.generated = {{TokenId{LeaderRun::kVocabulary}}};
  EXPECT_THROW(run.add(request), RequestError);
  request.generated = {{1}};
  request.score_from = 1;
  EXPECT_THROW(run.add(request), RequestError);
}

}  // namespace
}  // namespace tp

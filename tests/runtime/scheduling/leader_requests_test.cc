// Events that the leader's requests receive, without ranks, MPI or a model.
#include "runtime/scheduling/leader.h"
#include "tests/error_of.h"
#include "tests/runtime/scheduling/leader_run.h"
#include "tp/error.h"

#include <chrono>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>

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

TEST(Leader, ScoresAPromptWhileRequestsRun) {
  LeaderRun run(64, 4, limits_of(8, 4));
  const RequestId generating = run.add(prompt_of(6, 50), 12);
  const std::vector<TokenId> prompt = prompt_of(30);
  const RequestId all = run.add(scoring(prompt, 1));
  const RequestId end = run.add(scoring(prompt, 29));
  run.run();
  EXPECT_EQ(run.received[generating].tokens[0], continuation(prompt_of(6, 50), 12));
  EXPECT_EQ(run.received[all].first_logprob, 1U);
  EXPECT_EQ(run.received[all].logprobs, logprobs_of(prompt, 1));
  EXPECT_EQ(run.received[end].logprobs, logprobs_of(prompt, 29));
  for (const RequestId id : {all, end}) {
    EXPECT_TRUE(run.received[id].tokens.empty());
    EXPECT_TRUE(run.received[id].ended_with<RequestFinished>());
  }
  expect_all_free(run);
}

// Runs `before` and then `request`. Returns how many tokens `request` computes.
std::size_t computed_after(const Request& before, const Request& request, std::size_t block_size = 4) {
  LeaderRun run(64, block_size, limits_of(64, 4));
  run.add(before);
  run.run();
  const std::size_t computed = run.computed_tokens;
  const RequestId id = run.add(request);
  run.run();
  EXPECT_EQ(run.received[id].first_logprob, *request.score_from);
  EXPECT_EQ(run.received[id].logprobs, logprobs_of(request.prompt, *request.score_from));
  expect_all_free(run);
  return run.computed_tokens - computed;
}

TEST(Leader, UsesCachedTokensOnlyBeforeTheScoredOnes) {
  const std::vector<TokenId> prompt = prompt_of(30);
  Request plain;
  plain.prompt = prompt;
  plain.max_tokens = 1;
  // The prompt's last token is not computed: the one before it predicts it.
  EXPECT_EQ(computed_after(plain, scoring(prompt, 1)), 29U);
  EXPECT_EQ(computed_after(plain, scoring(prompt, 12)),
            29U - 8);  // the row of position 11 is in the third block
  EXPECT_EQ(computed_after(plain, scoring(prompt, 13)), 29U - 12);
  EXPECT_EQ(computed_after(plain, scoring(prompt, 13, 3)), 30U - 12 + 2);  // generates 3 tokens, too
}

TEST(Leader, ScoresACommonBeginningOnce) {
  const std::vector<TokenId> prompt = prompt_of(30);
  std::vector<TokenId> other = prompt;
  for (std::size_t i = 22; i < other.size(); ++i) other[i] = 150;
  // The prompts share five blocks. The last of them is computed again, because its last token predicts the
  // first token of the sixth.
  EXPECT_EQ(computed_after(scoring(prompt, 1), scoring(other, 1)), 29U - 16);
  EXPECT_EQ(computed_after(scoring(prompt, 1), scoring(other, 7)), 29U - 16);
  EXPECT_EQ(computed_after(scoring(prompt, 1, 2), scoring(other, 1, 3)), 30U - 16 + 2);
  EXPECT_EQ(computed_after(scoring(prompt, 1), scoring(prompt, 1)), 29U - 24);
  // Scores that start at token 6 are complete from the third block on, but not in the second block.
  EXPECT_EQ(computed_after(scoring(prompt, 6), scoring(other, 8)), 29U - 16);
  EXPECT_EQ(computed_after(scoring(prompt, 6), scoring(other, 6)), 29U - 4);
  EXPECT_EQ(computed_after(scoring(prompt, 1), scoring(other, 1), 1), 29U - 21) << "blocks of one token";
  EXPECT_EQ(computed_after(scoring(prompt, 1), scoring(other, 1), 2), 29U - 20);
  Request salted = scoring(other, 1);
  salted.cache_salt = "own";
  EXPECT_EQ(computed_after(scoring(prompt, 1), salted), 29U);
  Request uncached = scoring(other, 1);
  uncached.cache_prompt = false;
  EXPECT_EQ(computed_after(scoring(prompt, 1), uncached), 29U);
}

TEST(Leader, RecomputesForMoreLikeliestTokensThanWereKept) {
  const std::vector<TokenId> prompt = prompt_of(30);
  Request top = scoring(prompt, 1);
  top.score_top = 2;
  EXPECT_EQ(computed_after(scoring(prompt, 1), top), 29U);
  EXPECT_EQ(computed_after(top, scoring(prompt, 1)), 29U - 24);
}

TEST(Leader, ScoresAndContinuesInTightCachesWithoutSayingAnythingTwice) {
  LeaderRun run(11, 4, limits_of(4, 4));  // room for two prompts without their continuations
  std::map<RequestId, std::vector<TokenId>> prompts;
  for (TokenId i = 0; i < 4; ++i) {
    const std::vector<TokenId> prompt = prompt_of(18, 20 * i);
    prompts[run.add(scoring(prompt, 3, 8))] = prompt;
  }
  run.run();
  EXPECT_GT(run.leader.status().preemptions, 0U) << "the test proves nothing";
  for (const auto& [id, prompt] : prompts) {
    EXPECT_EQ(run.received[id].logprobs, logprobs_of(prompt, 3));
    EXPECT_EQ(run.received[id].tokens[0], continuation(prompt, 8));
  }
}

TEST(Leader, EndsAScoredRequestWhoseLogitsAreNotNumbers) {
  LeaderRun run(64, 4, limits_of(8, 4));
  run.worker.spoilt_token = 10;
  const RequestId id = run.add(scoring(prompt_of(30), 1));
  run.run();
  EXPECT_EQ(run.received[id].logprobs.size(), 8U) << "the first chunk is sound";
  EXPECT_EQ(
      run.received[id].errors[0].find("cannot compute the log-probability of token 9: the model's logits"),
      0U);
  EXPECT_TRUE(run.received[id].ended_with<RequestFinished>());
}

TEST(Leader, GivesTheLogitsOfEveryPositionInBoundedPieces) {
  LeaderRun run(64, 4, limits_of(200, 4));
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
  EXPECT_EQ(run.received[id].logits, expected);
  EXPECT_TRUE(run.received[id].ended_with<RequestFinished>());
}

Request bidirectional(std::vector<TokenId> prompt) {
  Request request;
  request.prompt = std::move(prompt);
  request.bidirectional = true;
  request.prompt_logits = true;
  request.max_tokens = 0;
  return request;
}

TEST(Leader, ComputesABidirectionalPromptInOneStepWithOtherRequests) {
  LeaderRun run(64, 4, limits_of(80, 3));
  const RequestId generating = run.add(prompt_of(6, 50), 12);
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{6});
  const RequestId causal = run.add(prompt_of(70, 20), 2);
  const RequestId whole = run.add(bidirectional(prompt_of(78)));
  EXPECT_EQ(chunk_sizes(run.step()), (Sizes{1, 70})) << "there is no room for all of it";
  EXPECT_EQ(chunk_sizes(run.step()), (Sizes{1, 1, 78}));
  run.run();
  EXPECT_EQ(run.received[whole].logits.size(), 2U * 78);
  EXPECT_TRUE(run.received[whole].ended_with<RequestFinished>());
  EXPECT_EQ(run.received[generating].tokens[0], continuation(prompt_of(6, 50), 12));
  EXPECT_EQ(run.received[causal].tokens[0], continuation(prompt_of(70, 20), 2));
  expect_all_free(run);
}

TEST(Leader, RejectsBidirectionalPromptsThatMayNeverFitIntoAStep) {
  LeaderRun run(64, 4, limits_of(80, 3));
  EXPECT_EQ(test::error_of<TooLongError>([&] { run.add(bidirectional(prompt_of(79))); }),
            "prompt has 79 tokens, but bidirectional attention computes it in one step, which has at "
            "most 78; raise `prefill_chunk`, or lower `max_sequences`");
  EXPECT_FALSE(run.leader.has_work());
}

TEST(Leader, SharesNoBlocksOfBidirectionalOrUncachedPrompts) {
  LeaderRun run(64, 4, limits_of(80, 3));
  const auto computed_for = [&](Request request) {
    const std::size_t before = run.computed_tokens;
    run.add(std::move(request));
    run.run();
    return run.computed_tokens - before;
  };
  Request private_one;
  private_one.prompt = prompt_of(30);
  private_one.max_tokens = 1;
  private_one.cache_prompt = false;
  Request usual = private_one;
  usual.cache_prompt = true;
  EXPECT_EQ(computed_for(private_one), 30U);
  EXPECT_EQ(computed_for(bidirectional(prompt_of(30))), 30U);
  EXPECT_EQ(computed_for(usual), 30U) << "found what is not to be found";
  EXPECT_EQ(computed_for(usual), 2U);
  EXPECT_EQ(computed_for(private_one), 30U) << "looked for what it does not want";
  EXPECT_EQ(computed_for(bidirectional(prompt_of(30))), 30U);
  EXPECT_EQ(run.leader.status().prefix_queries, 60U);
  EXPECT_EQ(run.leader.status().prefix_hits, 28U);
  // If two private requests arrive together, neither waits for the other's blocks.
  run.add(private_one);
  run.add(private_one);
  EXPECT_EQ(chunk_sizes(run.step()), (Sizes{30, 30}));
  run.run();
  expect_all_free(run);
}

TEST(Leader, TakesRequestsFromAnyThread) {
  LeaderRun run(256, 4, limits_of(16, 8));
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

TEST(Leader, ReportsTheTimesOfEvents) {
  LeaderRun run(64, 4, limits_of(4, 4));
  const RequestId id = run.add(prompt_of(10), 2);
  run.run();
  ASSERT_TRUE(run.received[id].ended_with<RequestFinished>());
  const RequestTimes& times = std::get<RequestFinished>(*run.received[id].end).times;
  EXPECT_NE(times.queued, RequestTimes::Clock::time_point{});
  EXPECT_LE(times.queued, times.first_scheduled);
  EXPECT_LE(times.first_scheduled, times.first_token);
  EXPECT_LE(times.first_token, times.finished);
}

TEST(Leader, CountsQueriesAndHitsOfThePrefixCache) {
  LeaderRun run(64, 4, limits_of(64, 4));
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

TEST(Leader, RejectsImpossibleRequestsInTheCaller) {
  LeaderRun run(8, 4, limits_of(8, 4));
  EXPECT_THROW(run.add(prompt_of(40), 1), RequestError);
  EXPECT_THROW(run.add({}, 1), RequestError);
  EXPECT_THROW(run.add({200}, 1), RequestError);
  EXPECT_THROW(run.add(scoring(prompt_of(4), 4)), RequestError);
  EXPECT_FALSE(run.leader.has_work());
}

// A sink may submit a request, for example the conversation's next one.
TEST(Leader, LetsASinkSubmit) {
  LeaderRun run(64, 4, limits_of(8, 4));
  RequestId second = 0;
  Request request;
  request.prompt = prompt_of(3);
  request.max_tokens = 1;
  run.leader.submit(request, [&](const Event& event) {
    if (std::holds_alternative<RequestFinished>(event)) second = run.add(prompt_of(5), 2);
  });
  run.run();
  EXPECT_TRUE(run.received[second].ended_with<RequestFinished>());
}

TEST(Leader, EndsAtTheRequestsTokensAndReportsTheToken) {
  LeaderRun run(64, 4, limits_of(8, 4));
  const std::vector<TokenId> tokens = continuation(prompt_of(6), 8);
  Request request;
  request.prompt = prompt_of(6);
  request.max_tokens = 8;
  request.stop_token_ids = {tokens[3], 150};
  const RequestId id = run.add(request);
  request.ignore_eos = true;
  const RequestId ignoring = run.add(request);
  run.run();
  const std::size_t size = run.received[id].tokens[0].size();
  EXPECT_LE(size, 4U);
  EXPECT_EQ(run.received[id].tokens[0],
            std::vector<TokenId>(tokens.begin(), tokens.begin() + static_cast<int>(size)));
  EXPECT_EQ(run.received[id].reasons[0], FinishReason::stop);
  EXPECT_EQ(std::get<TokenId>(run.received[id].matched_stop), tokens[3]);
  EXPECT_EQ(run.received[ignoring].tokens[0], tokens);
}

TEST(Leader, BansEndingTokensBeforeMinTokens) {
  LeaderRun run(64, 4, limits_of(8, 4));
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
              token < 3 ? (std::vector<TokenId>{tokens[0], LeaderRun::kEos}) : std::vector<TokenId>{});
  }
}

TEST(Leader, BansTokensThatCompleteABadWord) {
  LeaderRun run(64, 4, limits_of(8, 4));
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
  EXPECT_EQ(run.received[id].tokens[0], (std::vector<TokenId>{tokens[0], tokens[1], tokens[2] + 1}));
}

// The mask is computed while the ranks work: only choosing a token waits for it, planning does not.
TEST(Leader, AwaitsAMaskOnlyWhenATokenIsChosen) {
  LeaderRun run(64, 4, limits_of(8, 4));
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
  run.leader.apply_results(step, run.worker.run(step.forward));
  run.run();
  EXPECT_EQ(run.received[id].tokens[0], (std::vector<TokenId>{11, 22}));
  EXPECT_EQ(asked, (std::vector<std::vector<TokenId>>{{}, {11}}));
}

TEST(Leader, EndsARequestWhoseMaskFailsOrAllowsNothing) {
  LeaderRun run(64, 4, limits_of(8, 4));
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
  EXPECT_EQ(run.received[failing].errors[0], "the grammar has no end");
  EXPECT_EQ(run.received[strict].errors[0].find("cannot choose a token: the request excludes every token"),
            0U);
  EXPECT_EQ(run.received[other].tokens[0], continuation(prompt_of(6, 50), 3));
  for (const auto& [id, received] : run.received) EXPECT_TRUE(received.ended_with<RequestFinished>());
}

}  // namespace
}  // namespace tp

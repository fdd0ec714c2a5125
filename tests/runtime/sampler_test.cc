// Small cases whose results can be computed by hand.
#include "runtime/sampler.h"

#include "tp/error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Candidates row(const std::vector<float>& logits) {
  return merge_candidates(std::vector{shard_candidates(logits, 0, logits.size())});
}

// Logits of these probabilities; any common factor is free.
Candidates row_of_probabilities(const std::vector<float>& probabilities) {
  std::vector<float> logits;
  for (const float probability : probabilities) logits.push_back(std::log(probability));
  return row(logits);
}

// Every token that 2000 draws choose.
std::set<TokenId> drawn(const Candidates& candidates, const SamplingParams& params,
                        const TokenHistory& history = {}) {
  Sampler sampler;
  std::set<TokenId> ids;
  for (std::uint64_t position = 0; position < 2000; ++position) {
    ids.insert(sampler.choose(candidates, params, history, {.seed = 3, .position = position}).id);
  }
  return ids;
}

TokenId greedy(const Candidates& candidates, SamplingParams params, const TokenHistory& history) {
  params.temperature = 0.0F;
  return Sampler().choose(candidates, params, history, {}).id;
}

using Ids = std::set<TokenId>;

TEST(Sampler, GreedyTakesTheLowestIdAmongTheMostLikely) {
  EXPECT_EQ(greedy(row({1.0F, 3.0F, 2.0F, 3.0F}), {}, {}), 1);
}

TEST(Sampler, GreedyDoesNotDependOnTheOrderOfTheCandidates) {
  Candidates candidates = row({1.0F, 3.0F, 2.0F, 3.0F});
  std::reverse(candidates.entries.begin(), candidates.entries.end());
  EXPECT_EQ(greedy(candidates, {}, {}), 1);
}

TEST(Sampler, RepetitionPenaltyDividesPositiveLogitsOfPromptAndText) {
  TokenHistory history;
  history.add_prompt(std::vector<TokenId>{0, 0, 0});  // once or often: the same
  history.add_generated(1);
  const Candidates candidates = row({4.0F, 3.9F, 2.1F});
  EXPECT_EQ(greedy(candidates, {.repetition_penalty = 1.8F}, history), 0);  // 2.22, 2.17, 2.1
  EXPECT_EQ(greedy(candidates, {.repetition_penalty = 2.0F}, history), 2);  // 2.0, 1.95, 2.1
}

TEST(Sampler, RepetitionPenaltyMultipliesNegativeLogits) {
  TokenHistory history;
  history.add_prompt(std::vector<TokenId>{0});
  const Candidates candidates = row({-1.0F, -1.9F});
  EXPECT_EQ(greedy(candidates, {.repetition_penalty = 1.8F}, history), 0);  // -1.8, -1.9
  EXPECT_EQ(greedy(candidates, {.repetition_penalty = 2.0F}, history), 1);  // -2.0, -1.9
}

TEST(Sampler, RepetitionPenaltyBelowOneRaises) {
  TokenHistory history;
  history.add_prompt(std::vector<TokenId>{1});
  EXPECT_EQ(greedy(row({3.0F, 2.0F}), {.repetition_penalty = 0.5F}, history), 1);
}

TEST(Sampler, PresencePenaltyIsSubtractedOnceFromGeneratedTokensOnly) {
  TokenHistory history;
  history.add_prompt(std::vector<TokenId>{0, 1});
  for (int i = 0; i < 5; ++i) history.add_generated(1);
  // 1.2 is left of token 1 if the penalty counts once; token 0 is in the prompt and keeps its logit.
  EXPECT_EQ(greedy(row({1.1F, 2.0F}), {.presence_penalty = 0.8F}, history), 1);
  EXPECT_EQ(greedy(row({1.1F, 2.0F}), {.presence_penalty = 1.0F}, history), 0);
}

TEST(Sampler, FrequencyPenaltyIsSubtractedForEveryOccurrenceInTheText) {
  TokenHistory history;
  history.add_prompt(std::vector<TokenId>{0, 0, 0, 0, 1, 1});
  for (int i = 0; i < 3; ++i) history.add_generated(1);
  EXPECT_EQ(greedy(row({1.0F, 2.0F}), {.frequency_penalty = 0.3F}, history), 1);  // 1.0, 1.1
  EXPECT_EQ(greedy(row({1.0F, 2.0F}), {.frequency_penalty = 0.4F}, history), 0);  // 1.0, 0.8
}

TEST(Sampler, PenaltiesAddUpInTheOrderRepetitionPresenceFrequency) {
  TokenHistory history;
  history.add_generated(0);
  history.add_generated(0);
  const SamplingParams params{
      .repetition_penalty = 2.0F, .presence_penalty = 0.5F, .frequency_penalty = 0.25F};
  EXPECT_EQ(greedy(row({6.0F, 1.9F}), params, history), 0);  // 6 / 2 - 0.5 - 2 * 0.25 = 2
  EXPECT_EQ(greedy(row({6.0F, 2.1F}), params, history), 1);
}

TEST(Sampler, PenaltiesReachCandidatesInAnyOrder) {
  TokenHistory history;
  history.add_generated(2);
  Candidates candidates = row({1.0F, 0.0F, 2.0F});
  std::reverse(candidates.entries.begin(), candidates.entries.end());
  EXPECT_EQ(greedy(candidates, {.presence_penalty = 1.5F}, history), 0);
}

TEST(Sampler, ExtremePenaltiesAndTemperaturesGiveATokenNotAnOverflow) {
  TokenHistory history;
  history.add_prompt(std::vector<TokenId>{0, 1});
  const Candidates candidates = row({1e30F, -1e30F, 1.0F, -kInfinity});
  for (const float penalty : {std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()}) {
    for (const float temperature :
         {std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()}) {
      const SamplingParams params{
          .temperature = temperature, .top_p = 0.9999F, .min_p = 1e-30F, .repetition_penalty = penalty};
      const Ids ids = drawn(candidates, params, history);
      EXPECT_FALSE(ids.empty());
      EXPECT_EQ(ids.count(3), 0U);  // its logit is -infinity
    }
  }
}

TEST(Sampler, TinyTemperatureIsGreedy) {
  EXPECT_EQ(drawn(row({1.0F, 1.001F, 0.0F}), {.temperature = 1e-6F}), Ids{1});
}

TEST(Sampler, TopKKeepsTheMostLikelyWithTheLowestIdsAmongEquals) {
  EXPECT_EQ(drawn(row({1.0F, 2.0F, 1.0F, 1.0F}), {.top_k = 3}), (Ids{0, 1, 2}));
  EXPECT_EQ(drawn(row({1.0F, 2.0F, 1.0F, 1.0F}), {.top_k = 1}), Ids{1});
  EXPECT_EQ(drawn(row({1.0F, 2.0F, 1.0F, 1.0F}), {.top_k = 9}), (Ids{0, 1, 2, 3}));
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesTheShare) {
  const Candidates candidates = row_of_probabilities({0.15F, 0.5F, 0.05F, 0.3F});
  EXPECT_EQ(drawn(candidates, {.top_p = 0.49F}), Ids{1});
  EXPECT_EQ(drawn(candidates, {.top_p = 0.51F}), (Ids{1, 3}));
  EXPECT_EQ(drawn(candidates, {.top_p = 0.79F}), (Ids{1, 3}));
  EXPECT_EQ(drawn(candidates, {.top_p = 0.81F}), (Ids{0, 1, 3}));
  EXPECT_EQ(drawn(candidates, {.top_p = 0.951F}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(drawn(candidates, {.top_p = 1e-9F}), Ids{1});
}

TEST(Sampler, TopPOfEquallyLikelyTokensEndsExactlyAtTheShare) {
  const Candidates candidates = row({2.0F, 2.0F, 2.0F, 2.0F});
  EXPECT_EQ(drawn(candidates, {.top_p = 0.5F}), (Ids{0, 1}));
  EXPECT_EQ(drawn(candidates, {.top_p = 0.51F}), (Ids{0, 1, 2}));
}

TEST(Sampler, TopPIsTakenAtTheTemperature) {
  // At temperature 0.5 the weights 1, 1/2, 1/4 become 1, 1/4, 1/16: the first has 0.76 of them instead of
  // 0.57.
  const Candidates candidates = row_of_probabilities({1.0F, 0.5F, 0.25F});
  EXPECT_EQ(drawn(candidates, {.temperature = 1.0F, .top_p = 0.7F}), (Ids{0, 1}));
  EXPECT_EQ(drawn(candidates, {.temperature = 0.5F, .top_p = 0.7F}), Ids{0});
}

TEST(Sampler, TopPIsAShareOfWhatTopKLeft) {
  // Of the two that are left the first has 0.4 / 0.7 = 0.571.
  const Candidates candidates = row_of_probabilities({0.4F, 0.3F, 0.2F, 0.1F});
  EXPECT_EQ(drawn(candidates, {.top_k = 2, .top_p = 0.56F}), Ids{0});
  EXPECT_EQ(drawn(candidates, {.top_k = 2, .top_p = 0.58F}), (Ids{0, 1}));
}

TEST(Sampler, MinPIsRelativeToTheBest) {
  const Candidates candidates = row_of_probabilities({0.4F, 0.3F, 0.2F, 0.1F});
  EXPECT_EQ(drawn(candidates, {.min_p = 0.24F}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(drawn(candidates, {.min_p = 0.26F}), (Ids{0, 1, 2}));
  EXPECT_EQ(drawn(candidates, {.min_p = 0.74F}), (Ids{0, 1}));
  EXPECT_EQ(drawn(candidates, {.min_p = 1.0F}), Ids{0});
  EXPECT_EQ(drawn(candidates, {.temperature = 0.5F, .min_p = 0.26F}),
            (Ids{0, 1}));  // 1, 0.5625, 0.25, 0.0625
}

TEST(Sampler, LogprobsAreOfTheModelsOwnDistribution) {
  const Candidates candidates = row_of_probabilities({0.4F, 0.3F, 0.2F, 0.1F});
  TokenHistory history;
  for (const TokenId token : {0, 0, 0, 1}) history.add_generated(token);
  const SamplingParams params{.temperature = 0.0F, .frequency_penalty = 0.2F, .logprobs = 2};
  const Choice choice = Sampler().choose(candidates, params, history, {});
  EXPECT_EQ(choice.id, 1);  // log 0.4 - 0.6 = -1.52, log 0.3 - 0.2 = -1.40, log 0.2 = -1.61
  EXPECT_NEAR(choice.logprob, std::log(0.3), 1e-6);
  ASSERT_EQ(choice.top_logprobs.size(), 2U);
  EXPECT_EQ(choice.top_logprobs[0].id, 0);
  EXPECT_NEAR(choice.top_logprobs[0].logprob, std::log(0.4), 1e-6);
  EXPECT_EQ(choice.top_logprobs[1].id, 1);
}

TEST(Sampler, ReportsNoMoreLogprobsThanThereAreTokens) {
  const SamplingParams params{.temperature = 0.0F, .logprobs = 9};
  EXPECT_EQ(Sampler().choose(row({1.0F, 2.0F}), params, {}, {}).top_logprobs.size(), 2U);
}

TEST(Sampler, SameKeySameTokenAndOtherKeysOtherTokens) {
  const Candidates candidates = row(std::vector<float>(1000, 0.0F));
  const auto choose = [&](DrawKey key) { return Sampler().choose(candidates, {}, {}, key).id; };
  const DrawKey key{.seed = 11, .sample = 1, .position = 20};
  EXPECT_EQ(choose(key), choose(key));
  EXPECT_NE(choose(key), choose({.seed = 12, .sample = 1, .position = 20}));
  EXPECT_NE(choose(key), choose({.seed = 11, .sample = 2, .position = 20}));
  EXPECT_NE(choose(key), choose({.seed = 11, .sample = 1, .position = 21}));
}

void expect_not_numbers(const Candidates& candidates) {
  for (const float temperature : {0.0F, 1.0F}) {
    try {
      Sampler().choose(candidates, {.temperature = temperature, .top_k = 1}, {}, {});
      ADD_FAILURE() << "no error";
    } catch (const RequestError& error) {
      EXPECT_NE(std::string_view(error.what()).find("the model's logits are not numbers"),
                std::string_view::npos);
    }
  }
}

TEST(Sampler, RefusesLogitsThatAreNotNumbers) {
  expect_not_numbers(row({1.0F, kNan}));
  expect_not_numbers(row({1.0F, kInfinity}));
  expect_not_numbers(row({-kInfinity, -kInfinity}));
  expect_not_numbers({.entries = {{0, kNan}, {1, 1.0F}}, .log_sum_exp = 1.0, .vocab_size = 2});
  expect_not_numbers({.entries = {{0, -kInfinity}}, .log_sum_exp = 1.0, .vocab_size = 2});
}

TEST(Sampler, RefusesFewerCandidatesThanTheParametersNeed) {
  const Candidates two{.entries = {{0, 1.0F}, {1, 2.0F}}, .log_sum_exp = 3.0, .vocab_size = 9};
  EXPECT_EQ(Sampler().choose(two, {.temperature = 0.0F}, {}, {}).id, 1);
  EXPECT_THROW(Sampler().choose(two, {.top_k = 3}, {}, {}), std::logic_error);
  EXPECT_THROW(Sampler().choose(two, {}, {}, {}), std::logic_error);
}

}  // namespace
}  // namespace tp

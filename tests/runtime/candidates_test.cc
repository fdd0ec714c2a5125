#include "runtime/candidates.h"

#include "runtime/exponential.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<TokenId> ids_of(const std::vector<Candidate>& candidates) {
  std::vector<TokenId> ids;
  for (const Candidate& candidate : candidates) ids.push_back(candidate.id);
  return ids;
}

double log_sum_exp(const std::vector<float>& logits) {
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  return std::log(sum);
}

TEST(ExpNonpositive, IsWithinTwoTenMillionthsOfTheExponential) {
  for (float x = -87.0F; x <= 0.0F; x += 0.00137F) {
    const double expected = std::exp(static_cast<double>(x));
    ASSERT_NEAR(exp_nonpositive(x) / expected, 1.0, 2e-7) << x;
  }
}

TEST(ExpNonpositive, IsOneAtZeroAndZeroFarBelow) {
  EXPECT_EQ(exp_nonpositive(0.0F), 1.0F);
  EXPECT_EQ(exp_nonpositive(-0.0F), 1.0F);
  EXPECT_EQ(exp_nonpositive(-88.0F), 0.0F);
  EXPECT_EQ(exp_nonpositive(-kInfinity), 0.0F);
}

TEST(BestCandidates, AreTheFirstOfTheSortedOnes) {
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 300; ++repeat) {
    std::vector<Candidate> all(1 + random() % 1000);
    const auto levels = 1 + random() % 50;  // few levels: many ties
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = {static_cast<TokenId>(i), static_cast<float>(random() % levels) - 10.0F};
    }
    std::shuffle(all.begin(), all.end(), random);
    const std::size_t count = 1 + random() % 60;
    BestCandidates best(count);
    for (const Candidate& candidate : all) best.add(candidate);
    std::sort(all.begin(), all.end(), more_likely);
    all.resize(std::min(count, all.size()));
    ASSERT_EQ(ids_of(best.take_sorted()), ids_of(all));
  }
}

TEST(ShardCandidates, AreTheBestOfTheShardWithLowIdsFirstAmongEquals) {
  const std::vector<float> logits{1.0F, 4.0F, 2.0F, 4.0F, -1.0F};
  EXPECT_EQ(ids_of(shard_candidates(logits, 100, 3).entries), (std::vector<TokenId>{101, 103, 102}));
}

TEST(ShardCandidates, AreTheWholeShardInOrderWhenItHasNoMore) {
  const std::vector<float> logits{1.0F, 4.0F, 2.0F};
  EXPECT_EQ(ids_of(shard_candidates(logits, 7, 3).entries), (std::vector<TokenId>{7, 8, 9}));
  EXPECT_EQ(ids_of(shard_candidates(logits, 7, 99).entries), (std::vector<TokenId>{7, 8, 9}));
}

TEST(MergeCandidates, GivesTheLogSumExpOfTheWholeVocabulary) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0.0F, 8.0F);
  for (const std::size_t ranks : {1U, 2U, 3U, 7U}) {
    std::vector<float> logits(5000);
    for (float& logit : logits) logit = normal(random);
    std::vector<ShardCandidates> parts;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t begin = logits.size() * rank / ranks;
      const std::size_t end = logits.size() * (rank + 1) / ranks;
      parts.push_back(
          shard_candidates(std::span(logits).subspan(begin, end - begin), static_cast<TokenId>(begin), 1));
    }
    const Candidates all = merge_candidates(parts);
    EXPECT_EQ(all.entries.size(), ranks);
    EXPECT_EQ(all.vocab_size, 5000U);
    EXPECT_FALSE(all.complete());
    EXPECT_NEAR(all.log_sum_exp, log_sum_exp(logits), 1e-6);  // an exponential in float: 2e-7
  }
}

TEST(MergeCandidates, AcceptsEmptyShardsAndRuledOutTokens) {
  const std::vector<float> none;
  const std::vector<float> ruled_out{-kInfinity, -kInfinity};
  const std::vector<float> logits{1.0F, -kInfinity};
  const std::vector<ShardCandidates> parts{shard_candidates(none, 0, 4), shard_candidates(ruled_out, 0, 4),
                                           shard_candidates(logits, 2, 4)};
  const Candidates all = merge_candidates(parts);
  EXPECT_TRUE(all.complete());
  EXPECT_EQ(all.vocab_size, 4U);
  EXPECT_DOUBLE_EQ(all.log_sum_exp, 1.0);
}

TEST(MergeCandidates, SaysThatALogitOfAnyRankIsNotANumber) {
  for (const float bad : {kNan, kInfinity}) {
    const std::vector<float> good{1.0F, 2.0F};
    const std::vector<float> spoilt{1.0F, bad};
    for (const std::size_t count : {1U, 2U}) {
      const std::vector<ShardCandidates> parts{shard_candidates(good, 0, count),
                                               shard_candidates(spoilt, 2, count)};
      EXPECT_TRUE(std::isnan(merge_candidates(parts).log_sum_exp));
    }
  }
}

TEST(CandidatesNeeded, IsOneForTheMostLikelyToken) {
  SamplingParams params{.temperature = 0.0F};
  EXPECT_EQ(candidates_needed(params, 50U, 1000), 1U);
  params.logprobs = 5;
  EXPECT_EQ(candidates_needed(params, 50U, 1000), 5U);
}

TEST(CandidatesNeeded, GrowsByThePenalisedTokensIfPenaltiesOnlyLower) {
  SamplingParams params{.temperature = 1.0F, .top_k = 40, .repetition_penalty = 1.2F};
  EXPECT_EQ(candidates_needed(params, 50U, 1000), 90U);
  params.top_k = 980;
  EXPECT_EQ(candidates_needed(params, 50U, 1000), 1000U);
  params.temperature = 0.0F;
  EXPECT_EQ(candidates_needed(params, 50U, 1000), 51U);
}

TEST(CandidatesNeeded, IsEverythingIfAPenaltyCanRaiseALogit) {
  for (const SamplingParams& params : {SamplingParams{.temperature = 0.0F, .repetition_penalty = 0.9F},
                                       SamplingParams{.temperature = 0.0F, .presence_penalty = -0.1F},
                                       SamplingParams{.temperature = 0.0F, .frequency_penalty = -0.1F}}) {
    EXPECT_EQ(candidates_needed(params, 3U, 1000), 1000U);
    EXPECT_EQ(candidates_needed(params, 0U, 1000), 1U);  // nothing to be raised
  }
}

TEST(CandidatesNeeded, IsEverythingForADrawFromAllTokens) {
  EXPECT_EQ(candidates_needed(SamplingParams{}, 0U, 1000), 1000U);
  EXPECT_EQ(candidates_needed(SamplingParams{.top_p = 0.5F}, 0U, 1000), 1000U);
}

TEST(CandidatesNeeded, CountsThePromptForTheRepetitionPenaltyOnly) {
  TokenHistory history;
  history.add_prompt(std::vector<TokenId>{1, 2, 3, 2});
  history.add_generated(3);
  history.add_generated(9);
  history.add_generated(9);
  EXPECT_EQ(history.distinct_seen(), 4U);
  EXPECT_EQ(history.distinct_generated(), 2U);
  EXPECT_EQ(candidates_needed(SamplingParams{.top_k = 10}, history, 1000), 10U);
  EXPECT_EQ(candidates_needed(SamplingParams{.top_k = 10, .presence_penalty = 1.0F}, history, 1000), 12U);
  EXPECT_EQ(candidates_needed(SamplingParams{.top_k = 10, .repetition_penalty = 1.1F}, history, 1000), 14U);
}

}  // namespace
}  // namespace tp

#include "runtime/sampling/candidates.h"

#include "runtime/sampling/exponential.h"
#include "runtime/sampling/token_history.h"

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

TEST(BestCandidates, AreTheFirstSortedCandidates) {
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 300; ++repeat) {
    std::vector<Candidate> all(1 + random() % 1000);
    const auto levels = 1 + random() % 50;  // few levels give many ties
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

TEST(BestCandidates, HaveLowIdsFirstAmongEquals) {
  const std::vector<float> logits{1.0F, 4.0F, 2.0F, 4.0F, -1.0F};
  EXPECT_EQ(ids_of(best_candidates(logits, 100, 3)), (std::vector<TokenId>{101, 103, 102}));
  EXPECT_EQ(ids_of(best_candidates(logits, 7, 99)), (std::vector<TokenId>{8, 10, 9, 7, 11}));
  EXPECT_TRUE(best_candidates(logits, 7, 0).empty());
  EXPECT_TRUE(best_candidates({}, 7, 3).empty());
}

double entropy(const std::vector<float>& logits) {
  double entropy = 0.0;
  for (const float logit : logits) {
    const double log_probability = logit - log_sum_exp(logits);
    entropy -= std::exp(log_probability) * log_probability;
  }
  return entropy;
}

TEST(ExpSums, GiveTheWholesLogSumExpAndEntropyFromAnyParts) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0.0F, 4.0F);
  for (const std::size_t parts : {1U, 2U, 3U, 7U}) {
    std::vector<float> logits(5000);
    for (float& logit : logits) logit = normal(random);
    std::vector<ExpSums> sums;
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t begin = logits.size() * part / parts;
      const std::size_t end = logits.size() * (part + 1) / parts;
      sums.push_back(exp_sums(std::span(logits).subspan(begin, end - begin), true));
    }
    // Exponentials in float32: 2e-7.
    EXPECT_NEAR(merged(sums).log_sum_exp(), log_sum_exp(logits), 1e-6);
    EXPECT_NEAR(merged(sums).entropy(), entropy(logits), 1e-5);
  }
}

// Also tests a part that is so unlikely that its sum is rounded to 0, but not its share of the entropy.
TEST(ExpSums, RelativeToTheRowsMaximumHaveTheSameBitsInAnyParts) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0.0F, 4.0F);
  std::vector<float> logits(5000);
  for (float& logit : logits) logit = normal(random);
  const float max = *std::max_element(logits.begin(), logits.end());
  std::fill(logits.end() - 500, logits.end(), max - 24.9F);
  const ExpSums whole = exact_exp_sums(logits, max, true);
  EXPECT_NEAR(whole.log_sum_exp(), log_sum_exp(logits), 1e-6);
  EXPECT_NEAR(whole.entropy(), entropy(logits), 1e-5);
  for (const std::size_t parts : {2U, 3U, 7U, 10U}) {
    std::vector<ExpSums> sums;
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t begin = logits.size() * part / parts;
      const std::size_t end = logits.size() * (part + 1) / parts;
      sums.push_back(exact_exp_sums(std::span(logits).subspan(begin, end - begin), max, true));
    }
    EXPECT_EQ(merged(sums).log_sum_exp(), whole.log_sum_exp()) << parts;
    EXPECT_EQ(merged(sums).entropy(), whole.entropy()) << parts;
  }
}

TEST(ExpSums, AcceptEmptyPartsAndRuledOutTokens) {
  const std::vector<float> none;
  const std::vector<float> ruled_out{-kInfinity, -kInfinity};
  const std::vector<float> logits{1.0F, -kInfinity};
  const std::vector<ExpSums> parts{exp_sums(none, true), exp_sums(ruled_out, true), exp_sums(logits, true)};
  EXPECT_DOUBLE_EQ(merged(parts).log_sum_exp(), 1.0);
  EXPECT_DOUBLE_EQ(merged(parts).entropy(), 0.0);
}

TEST(AllUsable, IsFalseForNanAndInfinityOnly) {
  EXPECT_TRUE(all_usable(std::vector<float>{}));
  EXPECT_TRUE(all_usable(std::vector<float>{1.0F, -kInfinity}));
  EXPECT_FALSE(all_usable(std::vector<float>{1.0F, kNan}));
  EXPECT_FALSE(all_usable(std::vector<float>{kInfinity, 1.0F}));
}

TEST(TokenHistory, CountsPromptAndGeneratedTokensUpToWhereItIsCut) {
  TokenHistory history(4);
  history.append(std::vector<TokenId>{1, 2, 3, 2, 3, 9, 9});
  EXPECT_EQ(history.all().at(3).prompt, 1U);
  EXPECT_EQ(history.all().at(3).generated, 1U);
  EXPECT_EQ(history.all().at(9).generated, 2U);
  EXPECT_EQ(history.all().size(), 4U);
  history.truncate(4);
  EXPECT_EQ(history.all().at(3).generated, 0U);
  EXPECT_EQ(history.all().size(), 3U);
  history.append(std::vector<TokenId>{7});
  EXPECT_EQ(history.all().at(7).generated, 1U);
  history.truncate(3);
  EXPECT_EQ(history.all().at(2).prompt, 1U);
  EXPECT_EQ(history.size(), 3U);
}

}  // namespace
}  // namespace tp

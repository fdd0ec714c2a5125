// How often two models that sample with the same noise choose the same token. Let d be the total variation
// distance of their distributions. No method of sampling agrees more often than 1 - d. Common Gumbel noise
// agrees at least (1 - d) / (1 + d) of the time.
#include "runtime/sampling/sampler.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Random;

std::vector<double> probabilities(const std::vector<float>& logits, float temperature) {
  std::vector<double> weights;
  double sum = 0.0;
  for (const float logit : logits)
    sum += weights.emplace_back(std::exp(static_cast<double>(logit) / temperature));
  for (double& weight : weights) weight /= sum;
  return weights;
}

double total_variation(const std::vector<double>& first, const std::vector<double>& second) {
  double sum = 0.0;
  for (std::size_t i = 0; i < first.size(); ++i) sum += std::abs(first[i] - second[i]);
  return sum / 2;
}

TokenId drawn(const std::vector<float>& logits, float temperature, const DrawKey& key) {
  std::vector<Candidate> tokens;
  for (std::size_t i = 0; i < logits.size(); ++i) tokens.push_back({static_cast<TokenId>(i), logits[i]});
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = 0;
  params.top_p = 1.0F;
  return choose_among(std::move(tokens), params, key);
}

// Returns the share of positions at which both models choose the same token.
double agreement(const std::vector<float>& first, const std::vector<float>& second, float temperature,
                 std::size_t positions) {
  std::size_t same = 0;
  for (std::uint64_t position = 0; position < positions; ++position) {
    const DrawKey key{.seed = 7, .sample = 0, .position = position};
    same += drawn(first, temperature, key) == drawn(second, temperature, key) ? 1 : 0;
  }
  return static_cast<double>(same) / static_cast<double>(positions);
}

TEST(DraftAcceptance, LiesBetweenTheGuaranteeOfCommonNoiseAndTheOptimum) {
  constexpr std::size_t kPositions = 4000;
  constexpr std::size_t kPairs = 24;
  // Four standard deviations of a share of 4000 draws are at most 0.032, and four of the mean of all pairs
  // 0.007.
  constexpr double kTolerance = 0.032;
  constexpr double kMeanTolerance = 0.007;
  Random random(1);
  double found = 0.0;
  double min = 0.0;
  double max = 0.0;
  double independent = 0.0;
  for (std::size_t pair = 0; pair < kPairs; ++pair) {
    const float difference =
        0.1F * static_cast<float>(pair + 1);  // difference between the logits of both models
    const float temperature = pair % 2 == 0 ? 1.0F : 0.8F;
    std::vector<float> first(random.integer(2, 60));
    for (float& logit : first) logit = 6.0F * random.number();
    std::vector<float> second = first;
    for (float& logit : second) logit += 2.0F * difference * random.number();
    const std::vector<double> p = probabilities(first, temperature);
    const std::vector<double> q = probabilities(second, temperature);
    const double distance = total_variation(p, q);
    const double share = agreement(first, second, temperature, kPositions);
    EXPECT_GE(share, (1.0 - distance) / (1.0 + distance) - kTolerance) << "distance " << distance;
    EXPECT_LE(share, 1.0 - distance + kTolerance) << "distance " << distance;
    found += share / kPairs;
    min += (1.0 - distance) / (1.0 + distance) / kPairs;
    max += (1.0 - distance) / kPairs;
    for (std::size_t i = 0; i < p.size(); ++i) independent += p[i] * q[i] / kPairs;
  }
  EXPECT_GE(found, min - kMeanTolerance);
  EXPECT_LE(found, max + kMeanTolerance);
  EXPECT_LT(min, max - 0.05) << "the test proves nothing";
  EXPECT_GT(found, independent + 0.1) << "what models with noise of their own would reach";
}

TEST(DraftAcceptance, IsCertainIfBothModelsAgreeCompletely) {
  Random random(2);
  std::vector<float> logits(40);
  for (float& logit : logits) logit = random.number();
  EXPECT_EQ(agreement(logits, logits, 1.0F, 500), 1.0);
  // A constant that is added to all logits of one model doesn't matter.
  std::vector<float> shifted = logits;
  for (float& logit : shifted) logit += 0.5F;
  EXPECT_GE(agreement(logits, shifted, 1.0F, 500), 0.998) << "but for rounding";
}

}  // namespace
}  // namespace tp

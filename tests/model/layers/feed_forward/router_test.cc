#include "model/layers/feed_forward/router.h"

#include "tests/reference/experts.h"
#include "tests/reference/random.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Random;
using Scoring = RouterSpec::Scoring;

struct Choice {
  std::vector<std::size_t> experts;
  std::vector<float> weights;
};

Choice choose(const RouterSpec& spec, const std::vector<float>& logits, const std::vector<float>& bias = {}) {
  Choice choice{std::vector<std::size_t>(spec.num_experts_per_tok),
                std::vector<float>(spec.num_experts_per_tok)};
  choose_experts(spec, logits, bias, choice.experts, choice.weights);
  return choice;
}

void expect_as_the_naive_one(const RouterSpec& spec, const std::vector<float>& logits,
                             const std::vector<float>& bias) {
  const Choice found = choose(spec, logits, bias);
  const std::vector<reference::ExpertChoice> expected =
      reference::choose_experts(spec, {logits.begin(), logits.end()}, {bias.begin(), bias.end()});
  ASSERT_EQ(found.experts.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found.experts[i], expected[i].expert);
    EXPECT_NEAR(found.weights[i], expected[i].weight, 1e-6 * spec.scale);  // float32 of numbers up to `scale`
  }
}

TEST(ChooseExperts, AgreesWithTheNaiveChoiceForRandomRouters) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    RouterSpec spec;
    spec.num_groups = random.integer(1, 5);
    const std::size_t group_size = random.integer(2, 7);
    spec.num_experts = spec.num_groups * group_size;
    spec.groups_per_tok = random.integer(1, spec.num_groups);
    spec.experts_scoring_group = random.integer(1, 2);
    spec.num_experts_per_tok = random.integer(1, spec.groups_per_tok * group_size);
    spec.scoring = random.coin() ? Scoring::sigmoid : Scoring::softmax;
    spec.normalize = random.coin();
    spec.scale = random.coin() ? 1.0F : 2.5F;
    const std::vector<float> bias = random.coin() ? random.numbers(spec.num_experts) : std::vector<float>{};
    std::vector<float> logits = random.numbers(spec.num_experts);
    for (float& logit : logits) logit *= 4.0F;
    SCOPED_TRACE(fmt::format("seed {}: {} of {} experts in {} of {} groups", seed, spec.num_experts_per_tok,
                             spec.num_experts, spec.groups_per_tok, spec.num_groups));
    expect_as_the_naive_one(spec, logits, bias);
  }
}

TEST(ChooseExperts, TakesTheLowerIndexOfEqualExpertsAndOfEqualGroups) {
  const RouterSpec plain{.num_experts = 5, .num_experts_per_tok = 3};
  EXPECT_EQ(choose(plain, {1, 2, 2, 1, 1}).experts, (std::vector<std::size_t>{1, 2, 0}));
  EXPECT_EQ(choose(plain, {0, 0, 0, 0, 0}).experts, (std::vector<std::size_t>{0, 1, 2}));
  // Groups {0, 1}, {2, 3} and {4, 5} have equal best experts.
  const RouterSpec grouped{.num_experts = 6, .num_experts_per_tok = 3, .num_groups = 3, .groups_per_tok = 2};
  EXPECT_EQ(choose(grouped, {0, 3, 3, 1, 2, 3}).experts, (std::vector<std::size_t>{1, 2, 3}));
}

// Expert 4 is the second best, but its group is the worst.
TEST(ChooseExperts, LooksOnlyIntoTheBestGroups) {
  RouterSpec spec{.num_experts = 6, .num_experts_per_tok = 2, .num_groups = 3, .groups_per_tok = 2};
  spec.experts_scoring_group = 2;
  const std::vector<float> logits = {0.5F, 0.4F, 3.0F, 0.0F, 2.0F, -9.0F};
  spec.scoring = Scoring::sigmoid;
  EXPECT_EQ(choose(spec, logits).experts, (std::vector<std::size_t>{2, 0}));
  // The groups have a different order by their best expert.
  spec.experts_scoring_group = 1;
  EXPECT_EQ(choose(spec, logits).experts, (std::vector<std::size_t>{2, 4}));
}

// All biased scores of the kept group are below 0. Excluded experts must not win against them.
TEST(ChooseExperts, DoesNotFallBackOnOtherGroupsWhereTheBestScoreBelowZero) {
  RouterSpec spec{.num_experts = 4, .num_experts_per_tok = 2, .num_groups = 2, .groups_per_tok = 1};
  spec.scoring = Scoring::sigmoid;
  spec.correction_bias = true;
  EXPECT_EQ(choose(spec, {0, 0, 0, 0}, {-3, -3, -2, -2}).experts, (std::vector<std::size_t>{2, 3}));
}

TEST(ChooseExperts, LetsTheBiasDecideTheChoiceButNotTheWeights) {
  RouterSpec spec{.num_experts = 3, .num_experts_per_tok = 2};
  spec.scoring = Scoring::sigmoid;
  const Choice unbiased = choose(spec, {0, 1, 2});
  EXPECT_EQ(unbiased.experts, (std::vector<std::size_t>{2, 1}));
  const Choice biased = choose(spec, {0, 1, 2}, {5, 0, 0});
  EXPECT_EQ(biased.experts, (std::vector<std::size_t>{0, 2}));
  EXPECT_FLOAT_EQ(biased.weights[0], 0.5F);
  EXPECT_EQ(biased.weights[1], unbiased.weights[0]);
}

TEST(ChooseExperts, NormalizesToTheScale) {
  RouterSpec spec{.num_experts = 4, .num_experts_per_tok = 2};
  spec.scale = 2.5F;
  const std::vector<float> logits = {0, 0, 0, 0};
  EXPECT_EQ(choose(spec, logits).weights, (std::vector<float>{0.625F, 0.625F}));
  spec.normalize = true;
  EXPECT_EQ(choose(spec, logits).weights, (std::vector<float>{1.25F, 1.25F}));
}

// Logits 4, 3.9, 3 and -4 with a tolerance of 0.1: next to 4, only 3.9 counts; next to 3.9, after 4 is
// chosen, no other expert counts. With 0.5, 3 counts for both.
TEST(ChooseExperts, MixesOnlyExpertsWithinTheToleranceOfTheBest) {
  RouterSpec spec{.num_experts = 4, .num_experts_per_tok = 2};
  spec.scoring = Scoring::sparse_mixer;
  spec.tolerance = 0.1F;
  const std::vector<float> logits = {3.0F, 3.9F, -4.0F, 4.0F};
  const Choice near = choose(spec, logits);
  EXPECT_EQ(near.experts, (std::vector<std::size_t>{3, 1}));
  EXPECT_NEAR(near.weights[0], 1.0 / (1.0 + std::exp(-0.1)), 1e-6);
  EXPECT_NEAR(near.weights[1], 1.0, 1e-6);
  spec.tolerance = 0.5F;
  const Choice far = choose(spec, logits);
  EXPECT_NEAR(far.weights[0], 1.0 / (1.0 + std::exp(-0.1) + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(far.weights[1], 1.0 / (1.0 + std::exp(-0.9)), 1e-6);
}

TEST(ChooseExperts, DividesByNoLessThanTheLeastSum) {
  RouterSpec spec{.num_experts = 3, .num_experts_per_tok = 1};
  spec.normalize = true;
  spec.min_sum = 0.5F;
  // The bias selects an expert whose softmax is 1 / 4.
  const float low = std::log(0.5F);
  EXPECT_NEAR(choose(spec, {low, 0.0F, low}, {9, 0, 0}).weights[0], 0.5, 1e-6);
}

// DeepSeek-V4's scores: softplus(0) = ln 2, and softplus(x) = x for large x.
TEST(ChooseExperts, TakesRootsOfSoftplusesAsScores) {
  const RouterSpec spec{.num_experts = 3, .num_experts_per_tok = 2, .scoring = Scoring::sqrt_softplus};
  const Choice choice = choose(spec, {0.0F, 64.0F, -2.0F});
  EXPECT_EQ(choice.experts, (std::vector<std::size_t>{1, 0}));
  EXPECT_FLOAT_EQ(choice.weights[0], 8.0F);
  EXPECT_FLOAT_EQ(choice.weights[1], std::sqrt(std::log(2.0F)));
}

TEST(WeighExperts, GivesChosenExpertsTheirPartsOfTheScale) {
  const RouterSpec spec{.num_experts = 3,
                        .num_experts_per_tok = 2,
                        .scoring = Scoring::sqrt_softplus,
                        .normalize = true,
                        .scale = 1.5F};
  std::array<float, 2> weights{};
  weigh_experts(spec, std::array{49.0F, 1000.0F, 64.0F}, std::array<std::size_t, 2>{2, 0}, weights);
  EXPECT_FLOAT_EQ(weights[0], 1.5F * 8.0F / 15.0F);
  EXPECT_FLOAT_EQ(weights[1], 1.5F * 7.0F / 15.0F);
}

TEST(ChooseExperts, AddsToTheSumThatItDividesBy) {
  RouterSpec spec{.num_experts = 3, .num_experts_per_tok = 2, .scoring = Scoring::sigmoid};
  spec.normalize = true;
  spec.added_to_sum = 0.5F;
  EXPECT_NEAR(choose(spec, {0, 0, -9}).weights[0], 0.5 / 1.5, 1e-6);
}

TEST(ChooseExperts, StaysWithinItsExpertsForNanOrHugeLogits) {
  RouterSpec spec{.num_experts = 4, .num_experts_per_tok = 4, .num_groups = 2, .groups_per_tok = 2};
  for (const Scoring scoring : {Scoring::softmax, Scoring::sigmoid}) {
    spec.scoring = scoring;
    for (const float odd : {NAN, INFINITY, 1e30F}) {
      std::vector<std::size_t> experts = choose(spec, {odd, 1, odd, -odd}).experts;
      std::sort(experts.begin(), experts.end());
      EXPECT_EQ(experts, (std::vector<std::size_t>{0, 1, 2, 3}));
    }
  }
}

TEST(Routing, ListsEveryExpertsRowsInOrder) {
  const std::vector<std::size_t> experts = {2, 0, 0, 3, 2, 3};  // experts of three tokens
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  const Routing routing(4, 2, experts, weights);
  const auto expect = [&](std::size_t expert, const std::vector<std::size_t>& rows,
                          const std::vector<float>& of_rows) {
    const ExpertTokens found = routing.of(expert);
    EXPECT_EQ(std::vector(found.rows.begin(), found.rows.end()), rows);
    EXPECT_EQ(std::vector(found.weights.begin(), found.weights.end()), of_rows);
  };
  expect(0, {0, 1}, {2, 3});
  expect(1, {}, {});
  expect(2, {0, 2}, {1, 5});
  expect(3, {1, 2}, {4, 6});
}

}  // namespace
}  // namespace tp

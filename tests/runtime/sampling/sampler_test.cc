// Choices with results computed by hand, from rows that are divided among the ranks.
#include "runtime/sampling/sharded_choice.h"
#include "tests/runtime/sampling/choice_on_ranks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Row = std::vector<float>;
using test::ChoiceCase;
using test::choose_together;

// Returns logits of these probabilities. A common factor has no effect.
Row row_of_probabilities(const std::vector<float>& probabilities) {
  Row logits;
  for (const float probability : probabilities) logits.push_back(std::log(probability));
  return logits;
}

Chosen choose(const Row& row, const SamplingParams& params, const TokenHistory& history = TokenHistory(),
              const DrawKey& key = {}) {
  return choose_together(std::vector{ChoiceCase{row, params, &history, key}}).front();
}

// Returns all tokens that 2000 draws choose.
std::set<TokenId> drawn(const Row& row, const SamplingParams& params,
                        const TokenHistory& history = TokenHistory()) {
  std::vector<ChoiceCase> cases;
  for (std::uint64_t position = 0; position < 2000; ++position)
    cases.push_back({row, params, &history, {.seed = 3, .position = position}});
  std::set<TokenId> ids;
  for (const Chosen& chosen : choose_together(cases)) ids.insert(chosen.id);
  return ids;
}

TokenId greedy(const Row& row, SamplingParams params, const TokenHistory& history = TokenHistory()) {
  params.temperature = 0.0F;
  return choose(row, params, history).id;
}

TokenHistory history_of(const std::vector<TokenId>& prompt, const std::vector<TokenId>& generated) {
  TokenHistory history(prompt.size());
  history.append(prompt);
  history.append(generated);
  return history;
}

using Ids = std::set<TokenId>;

TEST(Sampler, GreedyTakesTheLowestIdAmongTheMostLikely) {
  EXPECT_EQ(greedy({1.0F, 3.0F, 2.0F, 3.0F}, {}), 1);
}

TEST(Sampler, RepetitionPenaltyDividesPositiveLogitsOfPromptAndText) {
  const TokenHistory history = history_of({0, 0, 0}, {1});  // the number of occurrences has no effect
  const Row candidates = Row({4.0F, 3.9F, 2.1F});
  EXPECT_EQ(greedy(candidates, {.repetition_penalty = 1.8F}, history), 0);  // 2.22, 2.17, 2.1
  EXPECT_EQ(greedy(candidates, {.repetition_penalty = 2.0F}, history), 2);  // 2.0, 1.95, 2.1
}

TEST(Sampler, RepetitionPenaltyMultipliesNegativeLogits) {
  const TokenHistory history = history_of({0}, {});
  const Row candidates = Row({-1.0F, -1.9F});
  EXPECT_EQ(greedy(candidates, {.repetition_penalty = 1.8F}, history), 0);  // -1.8, -1.9
  EXPECT_EQ(greedy(candidates, {.repetition_penalty = 2.0F}, history), 1);  // -2.0, -1.9
}

TEST(Sampler, RepetitionPenaltyBelowOneRaises) {
  const TokenHistory history = history_of({1}, {});
  EXPECT_EQ(greedy(Row({3.0F, 2.0F}), {.repetition_penalty = 0.5F}, history), 1);
}

TEST(Sampler, PresencePenaltyIsSubtractedOnceFromGeneratedTokensOnly) {
  const TokenHistory history = history_of({0, 1}, {1, 1, 1, 1, 1});
  // Token 1 keeps 1.2 if the penalty counts once. Token 0 is in the prompt and keeps its logit.
  EXPECT_EQ(greedy(Row({1.1F, 2.0F}), {.presence_penalty = 0.8F}, history), 1);
  EXPECT_EQ(greedy(Row({1.1F, 2.0F}), {.presence_penalty = 1.0F}, history), 0);
}

TEST(Sampler, FrequencyPenaltyIsSubtractedForEveryOccurrenceInTheText) {
  const TokenHistory history = history_of({0, 0, 0, 0, 1, 1}, {1, 1, 1});
  EXPECT_EQ(greedy(Row({1.0F, 2.0F}), {.frequency_penalty = 0.3F}, history), 1);  // 1.0, 1.1
  EXPECT_EQ(greedy(Row({1.0F, 2.0F}), {.frequency_penalty = 0.4F}, history), 0);  // 1.0, 0.8
}

TEST(Sampler, PenaltiesAddUpInTheOrderRepetitionPresenceFrequency) {
  const TokenHistory history = history_of({}, {0, 0});
  const SamplingParams params{
      .repetition_penalty = 2.0F, .presence_penalty = 0.5F, .frequency_penalty = 0.25F};
  EXPECT_EQ(greedy(Row({6.0F, 1.9F}), params, history), 0);  // 6 / 2 - 0.5 - 2 * 0.25 = 2
  EXPECT_EQ(greedy(Row({6.0F, 2.1F}), params, history), 1);
}

TEST(Sampler, ExtremePenaltiesAndTemperaturesGiveATokenNotAnOverflow) {
  const TokenHistory history = history_of({0, 1}, {});
  const Row candidates = Row({1e30F, -1e30F, 1.0F, -kInfinity});
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
  EXPECT_EQ(drawn(Row({1.0F, 1.001F, 0.0F}), {.temperature = 1e-6F}), Ids{1});
}

TEST(Sampler, TopKKeepsTheMostLikelyWithTheLowestIdsAmongEquals) {
  EXPECT_EQ(drawn(Row({1.0F, 2.0F, 1.0F, 1.0F}), {.top_k = 3}), (Ids{0, 1, 2}));
  EXPECT_EQ(drawn(Row({1.0F, 2.0F, 1.0F, 1.0F}), {.top_k = 1}), Ids{1});
  EXPECT_EQ(drawn(Row({1.0F, 2.0F, 1.0F, 1.0F}), {.top_k = 9}), (Ids{0, 1, 2, 3}));
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesTheShare) {
  const Row candidates = row_of_probabilities({0.15F, 0.5F, 0.05F, 0.3F});
  EXPECT_EQ(drawn(candidates, {.top_p = 0.49F}), Ids{1});
  EXPECT_EQ(drawn(candidates, {.top_p = 0.51F}), (Ids{1, 3}));
  EXPECT_EQ(drawn(candidates, {.top_p = 0.79F}), (Ids{1, 3}));
  EXPECT_EQ(drawn(candidates, {.top_p = 0.81F}), (Ids{0, 1, 3}));
  EXPECT_EQ(drawn(candidates, {.top_p = 0.951F}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(drawn(candidates, {.top_p = 1e-9F}), Ids{1});
}

TEST(Sampler, TopPOfEquallyLikelyTokensEndsExactlyAtTheShare) {
  const Row candidates = Row({2.0F, 2.0F, 2.0F, 2.0F});
  EXPECT_EQ(drawn(candidates, {.top_p = 0.5F}), (Ids{0, 1}));
  EXPECT_EQ(drawn(candidates, {.top_p = 0.51F}), (Ids{0, 1, 2}));
}

TEST(Sampler, TopPIsTakenAtTheTemperature) {
  // At temperature 0.5 the weights 1, 1/2, 1/4 become 1, 1/4, 1/16: the first has 0.76 of them instead of
  // 0.57.
  const Row candidates = row_of_probabilities({1.0F, 0.5F, 0.25F});
  EXPECT_EQ(drawn(candidates, {.temperature = 1.0F, .top_p = 0.7F}), (Ids{0, 1}));
  EXPECT_EQ(drawn(candidates, {.temperature = 0.5F, .top_p = 0.7F}), Ids{0});
}

TEST(Sampler, TopPIsAShareOfWhatTopKLeft) {
  // Top-k keeps two tokens. The first one's share is 0.4 / 0.7 = 0.571.
  const Row candidates = row_of_probabilities({0.4F, 0.3F, 0.2F, 0.1F});
  EXPECT_EQ(drawn(candidates, {.top_k = 2, .top_p = 0.56F}), Ids{0});
  EXPECT_EQ(drawn(candidates, {.top_k = 2, .top_p = 0.58F}), (Ids{0, 1}));
}

TEST(Sampler, MinPIsRelativeToTheBest) {
  const Row candidates = row_of_probabilities({0.4F, 0.3F, 0.2F, 0.1F});
  EXPECT_EQ(drawn(candidates, {.min_p = 0.24F}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(drawn(candidates, {.min_p = 0.26F}), (Ids{0, 1, 2}));
  EXPECT_EQ(drawn(candidates, {.min_p = 0.74F}), (Ids{0, 1}));
  EXPECT_EQ(drawn(candidates, {.min_p = 1.0F}), Ids{0});
  EXPECT_EQ(drawn(candidates, {.temperature = 0.5F, .min_p = 0.26F}),
            (Ids{0, 1}));  // 1, 0.5625, 0.25, 0.0625
}

TEST(Sampler, LogprobsAreOfTheModelsOwnDistribution) {
  const Row candidates = row_of_probabilities({0.4F, 0.3F, 0.2F, 0.1F});
  const TokenHistory history = history_of({}, {0, 0, 0, 1});
  const SamplingParams params{.temperature = 0.0F, .frequency_penalty = 0.2F, .logprobs = 2};
  const Chosen choice = choose(candidates, params, history);
  EXPECT_EQ(choice.id, 1);  // log 0.4 - 0.6 = -1.52, log 0.3 - 0.2 = -1.40, log 0.2 = -1.61
  EXPECT_NEAR(choice.logprob, std::log(0.3), 1e-6);
  ASSERT_EQ(choice.top_logprobs.size(), 2U);
  EXPECT_EQ(choice.top_logprobs[0].id, 0);
  EXPECT_NEAR(choice.top_logprobs[0].logprob, std::log(0.4), 1e-6);
  EXPECT_EQ(choice.top_logprobs[1].id, 1);
}

TEST(Sampler, ReportsNoMoreLogprobsThanThereAreTokens) {
  const SamplingParams params{.temperature = 0.0F, .logprobs = 9};
  EXPECT_EQ(choose(Row({1.0F, 2.0F}), params).top_logprobs.size(), 2U);
}

TEST(Sampler, SameKeySameTokenAndOtherKeysOtherTokens) {
  const Row candidates(1000, 0.0F);
  const auto id_of = [&](const DrawKey& key) { return choose(candidates, {}, TokenHistory(), key).id; };
  const DrawKey key{.seed = 11, .sample = 1, .position = 20};
  EXPECT_EQ(id_of(key), id_of(key));
  EXPECT_NE(id_of(key), id_of({.seed = 12, .sample = 1, .position = 20}));
  EXPECT_NE(id_of(key), id_of({.seed = 11, .sample = 2, .position = 20}));
  EXPECT_NE(id_of(key), id_of({.seed = 11, .sample = 1, .position = 21}));
}

TEST(Sampler, RefusesLogitsThatAreNotNumbers) {
  for (const Row& row :
       {Row{1.0F, kNan}, Row{kNan, 1.0F}, Row{1.0F, kInfinity}, Row{-kInfinity, -kInfinity}}) {
    for (const SamplingParams& params : {SamplingParams{.temperature = 0.0F}, SamplingParams{.top_k = 1},
                                         SamplingParams{}, SamplingParams{.top_p = 0.5F}})
      EXPECT_EQ(choose(row, params).error, ChoiceError::not_numbers);
  }
}

TEST(Sampler, RejectsARowWithoutAffectingOtherRows) {
  const Row good{1.0F, 2.0F, 0.0F};
  const Row spoilt{1.0F, kNan, 0.0F};
  const SamplingParams params{.temperature = 0.5F, .top_p = 0.9F};
  const std::vector<Chosen> chosen = choose_together(
      std::vector{ChoiceCase{good, params}, ChoiceCase{spoilt, params}, ChoiceCase{good, params}});
  EXPECT_EQ(chosen[0].error, ChoiceError::none);
  EXPECT_EQ(chosen[1].error, ChoiceError::not_numbers);
  EXPECT_EQ(chosen[2].id, chosen[0].id);
}

TEST(Sampler, AddsBiasBeforePenalties) {
  EXPECT_EQ(greedy({1.0F, 2.0F, 0.0F}, {.logit_bias = {{2, 2.5F}}}), 2);
  EXPECT_EQ(greedy({1.0F, 2.0F, 0.0F}, {.logit_bias = {{1, -100.0F}}}), 0);
  // (1 + 3) / 2 < 2.5. If the penalty came first, 1 / 2 + 3 would win.
  const TokenHistory history = history_of({0}, {});
  EXPECT_EQ(greedy({1.0F, 2.5F}, {.repetition_penalty = 2.0F, .logit_bias = {{0, 3.0F}}}, history), 1);
}

TEST(Sampler, NeverChoosesBannedOrDisallowedTokens) {
  const Row row{1.0F, 5.0F, 4.0F, 3.0F, 2.0F};
  TokenMask allowed(5);
  for (const TokenId id : {0, 2, 3}) allowed.add(id);
  for (const SamplingParams& params :
       {SamplingParams{.temperature = 0.0F}, SamplingParams{.top_k = 1}, SamplingParams{.top_p = 0.01F}}) {
    const auto chosen = [&](std::vector<TokenId> banned, const TokenMask* mask) {
      return choose_together(std::vector{ChoiceCase{row, params, nullptr, {}, std::move(banned), mask}})
          .front();
    };
    EXPECT_EQ(chosen({1}, nullptr).id, 2);
    EXPECT_EQ(chosen({}, &allowed).id, 2);
    EXPECT_EQ(chosen({2, 3}, &allowed).id, 0);
    EXPECT_EQ(chosen({0, 2, 3}, &allowed).error, ChoiceError::none_allowed);
  }
}

}  // namespace
}  // namespace tp

// Which draft tokens are proposed, and which of them a step takes.
#include "runtime/speculation/speculator.h"

#include "runtime/speculation/ngram_source.h"
#include "tests/expect_contains.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

Draft draft_of(NgramSource& source, const std::vector<TokenId>& tokens, std::size_t prompt, std::size_t max,
               std::uint64_t sequence = 1) {
  const DraftQuery query{sequence, tokens, prompt, max};
  return source.draft(std::span(&query, 1)).front();
}

// Answers every query with the same draft.
class FixedSource : public DraftSource {
 public:
  explicit FixedSource(Draft draft) : draft_(std::move(draft)) {}
  std::vector<Draft> draft(std::span<const DraftQuery> queries) override {
    return std::vector<Draft>(queries.size(), draft_);
  }
  void end(std::uint64_t /*sequence*/) override {}

 private:
  Draft draft_;
};

TEST(CustomSource, WrongDraftsDoNotReachTheModel) {
  std::string failure;
  const auto draft_by = [&](const Draft& draft) {
    const auto speculator =
        make_speculator({.drafts = DraftKind::custom},
                        {.custom = [&] { return std::make_unique<FixedSource>(draft); }}, 50, std::nullopt);
    const std::vector<TokenId> tokens = {1, 2, 3};
    const DraftQuery query{1, tokens, 2, 2};
    const std::vector<TokenId> tokens_of_draft =
        speculator->draft(std::span(&query, 1), {1, 1, 16}).front().tokens;
    failure = speculator->counts().failure;
    EXPECT_EQ(speculator->draft(std::span(&query, 1), {1, 1, 16}).front().tokens, tokens_of_draft);
    speculator->end({.sequence = 1});
    return tokens_of_draft;
  };
  EXPECT_EQ(draft_by({{49, 0}, {0.5, 0.2}}), (std::vector<TokenId>{49, 0}));
  EXPECT_EQ(failure, "");
  const std::vector<Draft> wrong = {{{50}, {0.5}},        {{-1}, {0.5}},        {{1, 2, 3}, {0.5, 0.4, 0.3}},
                                    {{1, 2}, {0.5}},      {{1, 2}, {0.5, 0.6}}, {{1}, {1.5}},
                                    {{1}, {std::nan("")}}};
  for (const Draft& draft : wrong) {
    EXPECT_EQ(draft_by(draft), std::vector<TokenId>());
    EXPECT_CONTAINS(failure, "wrong drafts from `draft_source`");
  }
}

TEST(NgramSource, ProposesTheEarlierContinuationOfTheLastTokens) {
  NgramSource source;
  EXPECT_EQ(draft_of(source, {1, 2, 3, 4, 5, 9, 1, 2}, 8, 3).tokens, (std::vector<TokenId>{3, 4, 5}));
  EXPECT_EQ(draft_of(source, {7, 8, 9}, 3, 3, 2).tokens, std::vector<TokenId>());
}

TEST(NgramSource, GoesOnWithAPeriodBeyondTheEndOfTheText) {
  NgramSource source;
  EXPECT_EQ(draft_of(source, {1, 2, 3, 1, 2, 3, 1}, 7, 8).tokens,
            (std::vector<TokenId>{2, 3, 1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(draft_of(source, {4, 4}, 2, 4, 2).tokens, (std::vector<TokenId>{4, 4, 4, 4}));
}

TEST(NgramSource, LearnsFromTheAnswerHowMuchAMatchIsWorth) {
  reference::Random random(5);
  std::vector<TokenId> repeats;
  std::vector<TokenId> varies;
  for (TokenId i = 0; i < 80; ++i) {
    repeats.push_back(i % 2);
    varies.push_back(random.coin() ? 1 : 2);
  }
  NgramSource source;
  const Draft good = draft_of(source, repeats, 2, 4, 1);
  const Draft bad = draft_of(source, varies, 2, 4, 2);
  ASSERT_EQ(good.chances.size(), 4U);
  ASSERT_EQ(bad.chances.size(), 4U);
  EXPECT_GT(good.chances[0], 0.8);
  EXPECT_GT(good.chances[0], bad.chances[0]);
  EXPECT_TRUE(std::ranges::is_sorted(good.chances, std::ranges::greater()));
  EXPECT_LE(good.chances[0], 1.0);
  EXPECT_GT(bad.chances[3], 0.0);
}

TEST(NgramSource, LearnsNothingFromPrompts) {
  std::vector<TokenId> repeats;
  for (TokenId i = 0; i < 40; ++i) repeats.push_back(i % 2);
  NgramSource of_prompt;
  NgramSource of_answer;
  EXPECT_LT(draft_of(of_prompt, repeats, 40, 1).chances[0], draft_of(of_answer, repeats, 2, 1).chances[0]);
}

TEST(NgramSource, ForgetsSequencesThatHaveEnded) {
  NgramSource source;
  draft_of(source, {1, 2, 3, 1}, 4, 1, 7);
  source.end(7);
  source.end(8);
  // A different text under an ended sequence's number is treated like a new sequence.
  EXPECT_EQ(draft_of(source, {5, 6, 5}, 3, 1, 7).tokens, std::vector<TokenId>{6});
}

TEST(MatchRates, ApproachObservedRates) {
  MatchRates rates;
  const double before = rates.rate(5);
  for (int i = 0; i < 40; ++i) rates.add(5, true);
  EXPECT_GT(rates.rate(5), 0.9);
  for (int i = 0; i < 80; ++i) rates.add(5, false);
  EXPECT_LT(rates.rate(5), 0.15);
  EXPECT_EQ(MatchRates().rate(5), before);
}

TEST(MatchRates, BeginWithOtherSequencesRates) {
  MatchRates others;
  for (int i = 0; i < 40; ++i) others.add(1, true);
  MatchRates own;
  EXPECT_GT(own.rate(1, &others), 0.8);
  for (int i = 0; i < 20; ++i) own.add(1, false);
  EXPECT_LT(own.rate(1, &others), 0.3);
}

TEST(MatchRates, AreHigherTheLongerTheMatchIs) {
  const MatchRates rates;
  for (std::size_t length = 1; length < 30; ++length) EXPECT_LE(rates.rate(length), rates.rate(length + 1));
}

TEST(RowCosts, AreInterpolatedBetweenMeasurements) {
  const RowCosts costs({{1, 10.0}, {4, 13.0}, {8, 21.0}});
  EXPECT_DOUBLE_EQ(costs.seconds(1, false), 10.0);
  EXPECT_DOUBLE_EQ(costs.seconds(2, false), 11.0);
  EXPECT_DOUBLE_EQ(costs.seconds(8, true), 21.0);
}

// Extrapolating the last segment would be wrong: if the point before it was measured too high, any number of
// rows would be free.
TEST(RowCosts, AreProportionalBeyondTheMeasuredRows) {
  const RowCosts costs({{1, 10.0}, {4, 19.0}, {8, 20.0}});
  EXPECT_DOUBLE_EQ(costs.seconds(8, true), 20.0);
  EXPECT_DOUBLE_EQ(costs.seconds(10, true), 25.0);
  EXPECT_DOUBLE_EQ(costs.seconds(80, false), 200.0);
}

TEST(RowCosts, NeverFallWithTheRows) {
  const RowCosts costs({{1, 10.0}, {2, 8.0}, {4, 12.0}});
  EXPECT_DOUBLE_EQ(costs.seconds(2, false), 10.0);
  EXPECT_DOUBLE_EQ(costs.seconds(3, false), 11.0);
}

TEST(RowCosts, FollowTheStepsThatWereRun) {
  RowCosts costs({{1, 10.0}, {2, 11.0}});
  for (int i = 0; i < 5; ++i) costs.observe(1, false, 20.0);
  EXPECT_DOUBLE_EQ(costs.seconds(1, false), 20.0);
  EXPECT_DOUBLE_EQ(costs.seconds(2, true), 22.0) << "what is known of steps without drafts holds for others";
  for (int i = 0; i < 5; ++i) costs.observe(2, true, 33.0);
  EXPECT_DOUBLE_EQ(costs.seconds(2, true), 33.0);
  EXPECT_DOUBLE_EQ(costs.seconds(1, false), 20.0);
  EXPECT_TRUE(costs.knows_drafts());
  EXPECT_EQ(costs.drafted_in_a_row(), 5U);
  for (int i = 0; i < 40; ++i) costs.observe(1, false, 20.0);
  EXPECT_DOUBLE_EQ(costs.seconds(2, true), 22.0) << "drafts are tried again after a while";
  EXPECT_FALSE(costs.knows_drafts());
  EXPECT_EQ(costs.drafted_in_a_row(), 0U);
}

class NoSource : public DraftSource {
 public:
  std::vector<Draft> draft(std::span<const DraftQuery> queries) override {
    return std::vector<Draft>(queries.size());
  }
  void end(std::uint64_t /*sequence*/) override {}
};

std::vector<std::size_t> selected(std::optional<RowCosts> costs,
                                  const std::vector<std::vector<double>>& chances,
                                  const Speculator::StepSize& step) {
  std::vector<Draft> drafts;
  for (const std::vector<double>& some : chances)
    drafts.push_back({std::vector<TokenId>(some.size(), 1), some});
  Speculator(std::make_unique<NoSource>(), 8, std::move(costs)).select(drafts, step);
  std::vector<std::size_t> sizes;
  for (const Draft& draft : drafts) {
    EXPECT_EQ(draft.tokens.size(), draft.chances.size());
    sizes.push_back(draft.tokens.size());
  }
  return sizes;
}

// Takes 20 ms, like a draft model that computes a prompt or a draft.
class SlowSource : public DraftSource {
 public:
  explicit SlowSource(std::vector<TokenId> tokens) : tokens_(std::move(tokens)) {}
  std::vector<Draft> draft(std::span<const DraftQuery> queries) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return std::vector<Draft>(queries.size(), {tokens_, std::vector<double>(tokens_.size(), 0.9)});
  }
  void end(std::uint64_t /*sequence*/) override {}

 private:
  std::vector<TokenId> tokens_;
};

// Returns in how many of twenty steps, of a millisecond each, the slow source was asked. The free source
// drafts 7.
std::size_t times_asked(const std::vector<TokenId>& drafts) {
  Speculator speculator(std::make_unique<SlowSource>(drafts), 8, RowCosts({{1, 0.001}, {16, 0.001}}),
                        std::make_unique<FixedSource>(Draft{{7}, {0.9}}));
  const std::vector<TokenId> tokens = {1, 2, 3};
  const DraftQuery query{.sequence = 1, .tokens = tokens, .prompt_tokens = 2, .max_tokens = 4};
  std::size_t asked = 0;
  for (int step = 0; step < 20; ++step) {
    const std::vector<TokenId> found = speculator.draft(std::span(&query, 1), {1, 1, 16}).front().tokens;
    asked += found == drafts ? 1 : 0;
    if (found != drafts) {
      EXPECT_EQ(found, std::vector<TokenId>{7});
    }
    speculator.count(found.size(), 0);
    speculator.observe({.rows = 1, .drafted = 0, .accepted = 0, .seconds = 0.001});
  }
  return asked;
}

TEST(Speculator, DoesNotTakeThePromptOfADraftModelForWrongGuesses) { EXPECT_EQ(times_asked({}), 20U); }

TEST(Speculator, AsksTheFreeSourceIfTheOtherCostsMoreThanItGains) {
  const std::size_t asked = times_asked({5, 6});
  EXPECT_GE(asked, 2U);
  EXPECT_LE(asked, 4U);
}

TEST(Speculator, TakesTheRowsThatGiveTheMostTokensPerSecond) {
  using Sizes = std::vector<std::size_t>;
  const std::vector<double> likely = {0.9, 0.8, 0.7, 0.6};
  // Further rows cost nothing.
  EXPECT_EQ(selected(RowCosts({{1, 10.0}, {16, 10.0}}), {likely}, {1, 1, 16}), Sizes{4});
  // Each further row costs as much as a step.
  EXPECT_EQ(selected(RowCosts({{1, 10.0}, {16, 160.0}}), {likely}, {1, 1, 16}), Sizes{0});
  // Times for 1.9, 2.7, 3.4 and 4 tokens are 15, 20, 25 and 30, so three draft tokens are best.
  EXPECT_EQ(selected(RowCosts({{1, 10.0}, {2, 15.0}, {16, 85.0}}), {likely}, {1, 1, 16}), Sizes{3});
  // The second row is expensive and later rows are free, so only all of them together pay off.
  EXPECT_EQ(selected(RowCosts({{1, 10.0}, {2, 25.0}, {16, 25.0}}), {likely}, {1, 1, 16}), Sizes{4});
  // If two sequences compete, the likelier tokens are selected.
  EXPECT_EQ(selected(RowCosts({{1, 10.0}, {2, 10.0}, {16, 38.0}}), {{0.2, 0.1}, {0.95, 0.9}}, {2, 2, 16}),
            (Sizes{0, 2}));
}

TEST(Speculator, StopsDraftsThatHardlyPay) {
  RowCosts costs({{1, 10.0}, {2, 10.9}});
  EXPECT_EQ(selected(costs, {{0.1}}, {1, 1, 16}), std::vector<std::size_t>{1}) << "nobody knows yet";
  EXPECT_EQ(selected(costs, {{0.04}}, {1, 1, 16}), std::vector<std::size_t>{0}) << "a loss by what is known";
  costs.observe(2, true, 10.9);
  EXPECT_EQ(selected(costs, {{0.1}}, {1, 1, 16}), std::vector<std::size_t>{0}) << "1.1 tokens in 1.09 steps";
  EXPECT_EQ(selected(costs, {{0.15}}, {1, 1, 16}), std::vector<std::size_t>{1});
}

// Drafts the same tokens for every sequence, and counts how often it is asked.
class CountingSource : public DraftSource {
 public:
  CountingSource(std::size_t tokens, std::size_t& asked)
      : draft_{std::vector<TokenId>(tokens, 1), std::vector<double>(tokens, 0.9)}, asked_(asked) {}
  std::vector<Draft> draft(std::span<const DraftQuery> queries) override {
    ++asked_;
    if (queries.front().max_tokens == 0) return std::vector<Draft>(queries.size());
    return std::vector<Draft>(queries.size(), draft_);
  }
  void end(std::uint64_t /*sequence*/) override {}

 private:
  Draft draft_;
  std::size_t& asked_;
};

// Simulated steps. `seconds_of` gives the duration of a step with this many rows.
struct MadeUpSteps {
  std::size_t sequences = 1;
  std::size_t draft_tokens = 4;  // draft tokens of each sequence that has a draft
  bool are_right = true;
  std::function<double(std::size_t rows)> seconds_of;
  bool follows_prompts = false;

  // [steps] number of draft rows
  std::vector<std::size_t> drafted{};
  std::size_t asked = 0;
  double tokens = 0.0;
  double seconds = 0.0;

  // `expected`: the costs measured before.
  void run(std::size_t steps, const RowCosts& expected) {
    Speculator speculator(std::make_unique<CountingSource>(draft_tokens, asked), 8, expected, nullptr,
                          follows_prompts);
    const std::vector<TokenId> text = {1, 2, 3};
    std::vector<DraftQuery> queries;
    for (std::size_t i = 0; i < sequences; ++i)
      queries.push_back({.sequence = i, .tokens = text, .prompt_tokens = 2, .max_tokens = draft_tokens});
    const Speculator::StepSize size = {sequences, sequences, 100};
    for (std::size_t step = 0; step < steps; ++step) {
      std::vector<Draft> drafts = speculator.draft(queries, size);
      speculator.select(drafts, size);
      std::size_t rows = 0;
      for (const Draft& draft : drafts) rows += draft.tokens.size();
      const std::size_t right = are_right ? rows : 0;
      const double took = seconds_of(sequences + rows);
      speculator.observe({.rows = sequences + rows, .drafted = rows, .accepted = right, .seconds = took});
      drafted.push_back(rows);
      tokens += static_cast<double>(sequences + right);
      seconds += took;
    }
  }

  std::size_t steps_with_drafts(std::size_t first, std::size_t last) const {
    const auto begin = drafted.begin();
    return static_cast<std::size_t>(std::count_if(begin + static_cast<std::ptrdiff_t>(first),
                                                  begin + static_cast<std::ptrdiff_t>(last),
                                                  [](std::size_t rows) { return rows > 0; }));
  }
  double seconds_without() const { return tokens * seconds_of(sequences) / static_cast<double>(sequences); }
};

TEST(Speculator, GivesUpGuessesThatCostMoreThanTheyGainAndTriesThemAgain) {
  // Further rows are expensive, although the measured costs say that they are cheap.
  MadeUpSteps steps{.sequences = 16, .seconds_of = [](std::size_t rows) {
                      return rows == 16 ? 16.0 : 1.2 * static_cast<double>(rows);
                    }};
  steps.run(400, RowCosts({{1, 4.0}, {16, 16.0}, {32, 20.0}}));
  EXPECT_GT(steps.steps_with_drafts(0, 1), 0U);
  EXPECT_LE(steps.steps_with_drafts(0, 33), 5U);
  EXPECT_GT(steps.steps_with_drafts(200, 400), 0U);
  EXPECT_LT(steps.seconds, 1.03 * steps.seconds_without());
}

// The drafts' probabilities are wrong, and the rows are cheap, so the drafts look worthwhile.
TEST(Speculator, LosesLittleForAnyReason) {
  MadeUpSteps steps{.are_right = false,
                    .seconds_of = [](std::size_t rows) { return 10.0 + static_cast<double>(rows); }};
  steps.run(3000, RowCosts({{1, 11.0}, {32, 42.0}}));
  EXPECT_GT(steps.steps_with_drafts(2000, 3000), 0U) << "they are tried now and then";
  EXPECT_LT(steps.seconds, 1.03 * steps.seconds_without());
}

TEST(Speculator, DoesNotAskIfEvenRightDraftTokensDoNotPay) {
  MadeUpSteps steps{.sequences = 16, .draft_tokens = 1, .seconds_of = [](std::size_t rows) {
                      return 2.0 * static_cast<double>(rows);
                    }};
  steps.run(100, RowCosts({{1, 4.0}, {16, 32.0}, {32, 96.0}}));
  EXPECT_EQ(steps.asked, 0U);
  // A layer that reads the model's states must be asked in every step, while the states are there.
  steps.follows_prompts = true;
  steps.run(100, RowCosts({{1, 4.0}, {16, 32.0}, {32, 96.0}}));
  EXPECT_EQ(steps.asked, 100U);
  EXPECT_EQ(steps.steps_with_drafts(0, 200), 0U);
}

TEST(Speculator, SometimesSkipsDraftsThatGainLittle) {
  MadeUpSteps little{.sequences = 16, .draft_tokens = 1, .seconds_of = [](std::size_t rows) {
                       return 4.0 + static_cast<double>(rows);
                     }};
  const RowCosts costs({{1, 5.0}, {32, 36.0}});
  little.run(170, costs);
  EXPECT_EQ(little.steps_with_drafts(0, 170), 160U);
  MadeUpSteps much{.seconds_of = [](std::size_t rows) { return 4.0 + static_cast<double>(rows); }};
  much.run(170, costs);
  EXPECT_EQ(much.steps_with_drafts(0, 170), 170U);
}

TEST(Speculator, KeepsWithinTheRoomOfTheStep) {
  EXPECT_EQ(selected(std::nullopt, {{0.5, 0.1}, {0.9, 0.8}}, {2, 2, 3}), (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(selected(std::nullopt, {{0.5, 0.1}}, {2, 2, 0}), std::vector<std::size_t>{0});
}

TEST(Speculator, CountsByPlaceInTheDraft) {
  Speculator speculator(std::make_unique<NoSource>(), 99);
  EXPECT_EQ(speculator.max_drafts(), kMaxDraftTokens);
  speculator.count(3, 1);
  speculator.count(2, 2);
  speculator.count(0, 0);
  const SpeculationCounts& counts = speculator.counts();
  EXPECT_EQ(counts.drafts, 2U);
  EXPECT_EQ(counts.drafted_tokens(), 5U);
  EXPECT_EQ(counts.accepted_tokens(), 3U);
  EXPECT_EQ(counts.drafted[2], 1U);
  EXPECT_EQ(counts.accepted[0], 2U);
  EXPECT_EQ(counts.accepted[1], 1U);
  EXPECT_EQ(counts.accepted[2], 0U);
}

}  // namespace
}  // namespace tp

// Choices from random rows that are divided among the ranks, compared with a sampler that sees whole rows,
// and with a plain reference.
#include "runtime/sampling/sharded_choice.h"
#include "runtime/sampling/vocab_cut.h"
#include "tests/reference/whole_row_sampler.h"
#include "tests/runtime/sampling/choice_on_ranks.h"
#include "tests/runtime/sampling/sampler_reference.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::ChoiceCase;
using test::choose_together;
using testing::reference_probabilities;
using testing::SamplingCase;

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  std::mt19937& engine() { return random_; }
  bool one_in(unsigned n) { return random_() % n == 0; }
  std::size_t below(std::size_t n) { return random_() % n; }
  float between(float low, float high) { return std::uniform_real_distribution<float>(low, high)(random_); }

 private:
  std::mt19937 random_;
};

// `may_raise`: whether penalties may raise logits.
SamplingParams random_params(Dice& dice, bool may_raise) {
  SamplingParams params;
  params.temperature = dice.one_in(4) ? 0.0F : dice.between(0.3F, 2.0F);
  if (!dice.one_in(3)) params.top_k = static_cast<int>(1 + dice.below(dice.one_in(4) ? 400 : 12));
  if (dice.one_in(2)) params.top_p = dice.between(0.05F, 1.0F);
  if (dice.one_in(3)) params.min_p = dice.between(0.0F, 0.5F);
  if (dice.one_in(2)) params.repetition_penalty = dice.between(may_raise ? 0.5F : 1.0F, 2.5F);
  if (dice.one_in(3)) params.presence_penalty = dice.between(may_raise ? -2.0F : 0.0F, 2.0F);
  if (dice.one_in(3)) params.frequency_penalty = dice.between(may_raise ? -1.0F : 0.0F, 1.0F);
  if (dice.one_in(2)) params.logprobs = static_cast<int>(dice.below(20));
  return params;
}

SamplingCase random_case(Dice& dice, std::size_t largest_vocab, bool may_raise) {
  SamplingCase c;
  c.logits.resize(1 + dice.below(largest_vocab));
  const bool with_ties = dice.one_in(2);
  for (float& logit : c.logits) {
    logit = dice.between(-4.0F, 6.0F);
    if (with_ties) logit = std::round(logit);
  }
  // Penalties matter most for the likeliest tokens.
  const auto likely_token = [&] {
    TokenId best = static_cast<TokenId>(dice.below(c.logits.size()));
    for (int tries = 0; tries < 4; ++tries) {
      const auto other = static_cast<TokenId>(dice.below(c.logits.size()));
      if (c.logits[static_cast<std::size_t>(other)] > c.logits[static_cast<std::size_t>(best)]) best = other;
    }
    return best;
  };
  for (std::size_t i = dice.below(15); i > 0; --i) c.prompt.push_back(likely_token());
  for (std::size_t i = dice.below(15); i > 0; --i) c.generated.push_back(likely_token());
  c.params = random_params(dice, may_raise);
  return c;
}

TokenHistory history_of(const SamplingCase& c) {
  TokenHistory history(c.prompt.size());
  history.append(c.prompt);
  history.append(c.generated);
  return history;
}

// Shards of random sizes, some of them empty.
std::vector<Range> random_shards(std::size_t ranks, std::size_t vocab_size, Dice& dice) {
  std::vector<std::size_t> ends;
  for (std::size_t rank = 0; rank + 1 < ranks; ++rank) ends.push_back(dice.below(vocab_size + 1));
  ends.push_back(vocab_size);
  std::sort(ends.begin(), ends.end());
  std::vector<Range> shards;
  for (const std::size_t end : ends) shards.push_back({shards.empty() ? 0 : shards.back().end, end});
  return shards;
}

void expect_same(const Chosen& found, const reference::Choice& expected, const SamplingParams& params) {
  EXPECT_EQ(found.id, expected.id);
  if (params.logprobs < 0) return;
  // Sums of exponentials in float32, whose relative error is 2e-7.
  EXPECT_NEAR(found.logprob, expected.logprob, 2e-6);
  ASSERT_EQ(found.top_logprobs.size(), expected.top_logprobs.size());
  for (std::size_t i = 0; i < found.top_logprobs.size(); ++i) {
    EXPECT_EQ(found.top_logprobs[i].id, expected.top_logprobs[i].id);
    EXPECT_NEAR(found.top_logprobs[i].logprob, expected.top_logprobs[i].logprob, 2e-6);
  }
}

// Compares choices for cases of the same vocabulary, made together on any shards, with the whole-row
// sampler's.
void compare(const std::vector<SamplingCase>& cases, Dice& dice) {
  Communicator& comm = test::world();
  std::vector<TokenHistory> histories;
  for (const SamplingCase& c : cases) histories.push_back(history_of(c));
  std::vector<ChoiceCase> rows;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    rows.push_back({cases[i].logits, cases[i].params, &histories[i], {dice.engine()(), i % 3, i}});
  }
  const std::vector<Range> shards = random_shards(comm.size(), cases.front().logits.size(), dice);
  const std::vector<Chosen> chosen = choose_together(comm, rows, shards);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "row " << i);
    expect_same(chosen[i], reference::choose(cases[i].logits, cases[i].params, histories[i], rows[i].key),
                cases[i].params);
  }
}

TEST(SamplerProperty, ChoicesOnAnyShardsMatchTheWholeRow) {
  Dice dice(101);
  for (int repeat = 0; repeat < 400 && !HasFailure(); ++repeat) {
    SCOPED_TRACE(::testing::Message() << "case " << repeat);
    std::vector<SamplingCase> cases(1, random_case(dice, 300, true));
    const std::size_t vocab_size = cases.front().logits.size();
    while (cases.size() < 8) {
      SamplingCase c = random_case(dice, 300, true);
      c.logits.resize(vocab_size, -3.0F);
      for (TokenId& id : c.prompt) id %= static_cast<TokenId>(vocab_size);
      for (TokenId& id : c.generated) id %= static_cast<TokenId>(vocab_size);
      cases.push_back(std::move(c));
    }
    compare(cases, dice);
  }
}

// Large vocabularies: a top_k that is too large to gather, and nuclei that end among more tokens than are
// gathered, with different or equal likelihoods.
TEST(SamplerProperty, ChoicesFromLargeVocabulariesMatchTheWholeRow) {
  Dice dice(102);
  for (const float spread : {3.0F, 0.05F, 0.0F}) {
    for (int repeat = 0; repeat < 12 && !HasFailure(); ++repeat) {
      SCOPED_TRACE(::testing::Message() << "spread " << spread << ", case " << repeat);
      std::vector<SamplingCase> cases(6);
      std::normal_distribution<float> normal(0.0F, 1.0F);
      for (SamplingCase& c : cases) {
        c.logits.resize(20000);
        for (float& logit : c.logits) logit = spread * normal(dice.engine());
        c.params.temperature = dice.between(0.3F, 1.5F);
        if (!dice.one_in(3)) c.params.top_p = dice.between(0.05F, 1.0F);
        if (dice.one_in(2)) c.params.top_k = static_cast<int>(kMaxGatheredTopK + 1 + dice.below(15000));
        if (dice.one_in(4)) c.params.min_p = dice.between(0.0F, 0.2F);
      }
      compare(cases, dice);
    }
  }
}

// The size of exchanges between ranks does not depend on the vocabulary.
TEST(SamplerProperty, ExchangesAreFewAndSmallInEverySetting) {
  Communicator& comm = test::world();
  std::vector<float> logits(50000);
  Dice dice(103);
  for (float& logit : logits) logit = dice.between(-4.0F, 6.0F);
  struct Setting {
    SamplingParams params;
    std::size_t exchanges;
    std::size_t bytes;  // bytes of this rank, in exchanges and the gather
  };
  constexpr std::size_t kHistogram = NucleusScale::kBuckets * sizeof(double);
  constexpr std::size_t kBoundary = kMaxBoundary * sizeof(Candidate);
  for (const Setting& setting :
       {Setting{{.temperature = 0.0F}, 0, 200}, Setting{{.top_k = 40}, 0, 1000}, Setting{{}, 1, 200},
        Setting{{.min_p = 0.1F}, 1, 200}, Setting{{.top_p = 0.9F}, 4, kHistogram + kBoundary + 1000},
        Setting{{.top_k = 2000}, 4, kHistogram + kBoundary + 1000},
        Setting{{.top_k = 2000, .top_p = 0.9F}, 7, 2 * (kHistogram + kBoundary) + 1000}}) {
    comm.stats() = CommStats{};
    const std::vector<ChoiceCase> cases{{logits, setting.params}};
    choose_together(cases);
    EXPECT_EQ(comm.stats().exchange.calls, setting.exchanges);
    EXPECT_EQ(comm.stats().gather.calls, 1U);
    EXPECT_LE(comm.stats().exchange.bytes + comm.stats().gather.bytes, setting.bytes);
    EXPECT_EQ(comm.stats().all_reduce.calls, 0U);
  }
}

struct ChiSquare {
  double value = 0.0;
  int freedom = 0;

  // Returns how many standard deviations the value is above its mean (Wilson and Hilferty: its cube root is
  // nearly normal).
  double deviations() const {
    const double spread = 2.0 / (9.0 * freedom);
    return (std::cbrt(value / freedom) - (1.0 - spread)) / std::sqrt(spread);
  }
};

// Counts only cells that are expected at least 5 times. A token of probability 0 must not occur at all.
ChiSquare compare_frequencies(const std::vector<double>& probabilities, const std::vector<int>& counts,
                              int draws) {
  ChiSquare result;
  int cells = 0;
  const auto add_cell = [&](double expected, double found) {
    result.value += (found - expected) * (found - expected) / expected;
    ++cells;
  };
  double rest_expected = 0.0;
  double rest_found = 0.0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * draws;
    if (expected >= 5.0) {
      add_cell(expected, counts[i]);
    } else {
      rest_expected += expected;
      rest_found += counts[i];
    }
    EXPECT_TRUE(expected > 0.0 || counts[i] == 0) << "token " << i;
  }
  if (rest_expected >= 5.0) add_cell(rest_expected, rest_found);
  result.freedom = cells - 1;
  return result;
}

std::vector<int> count_draws(const SamplingCase& c, std::uint64_t seed, int draws) {
  const TokenHistory history = history_of(c);
  std::vector<ChoiceCase> cases;
  for (int draw = 0; draw < draws; ++draw) {
    // Positions and samples both vary, like in a request.
    const DrawKey key{seed, static_cast<std::uint64_t>(draw % 4), static_cast<std::uint64_t>(draw / 4)};
    cases.push_back({c.logits, c.params, &history, key});
  }
  std::vector<int> counts(c.logits.size(), 0);
  for (const Chosen& chosen : choose_together(cases)) ++counts[static_cast<std::size_t>(chosen.id)];
  return counts;
}

TEST(SamplerProperty, DrawsHaveTheReferencesFrequencies) {
  Dice dice(104);
  constexpr int kDraws = 3000;
  ChiSquare all;
  for (std::uint64_t repeat = 0; repeat < 80; ++repeat) {
    const SamplingCase c = random_case(dice, 60, true);
    const ChiSquare one =
        compare_frequencies(reference_probabilities(c), count_draws(c, repeat, kDraws), kDraws);
    ASSERT_FALSE(HasFailure()) << "case " << repeat;
    if (one.freedom == 0) continue;
    ASSERT_LT(one.deviations(), 5.0) << "case " << repeat;
    all.value += one.value;
    all.freedom += one.freedom;
  }
  EXPECT_GT(all.freedom, 200);
  EXPECT_NEAR(all.deviations(), 0.0, 4.0);
}

TEST(SamplerProperty, NucleusOfALargeVocabularyMatchesTheReference) {
  Dice dice(105);
  for (const float top_p : {0.1F, 0.5F, 0.9F, 0.999F}) {
    SamplingCase c;
    c.logits.resize(20000);
    std::normal_distribution<float> normal(0.0F, 3.0F);
    for (float& logit : c.logits) logit = normal(dice.engine());
    c.params.top_p = top_p;
    const std::vector<double> probabilities = reference_probabilities(c);
    std::vector<ChoiceCase> cases;
    for (std::uint64_t position = 0; position < 300; ++position)
      cases.push_back({c.logits, c.params, nullptr, {1, 1, position}});
    for (const Chosen& chosen : choose_together(cases))
      ASSERT_GT(probabilities[static_cast<std::size_t>(chosen.id)], 0.0) << top_p;
  }
}

}  // namespace
}  // namespace tp

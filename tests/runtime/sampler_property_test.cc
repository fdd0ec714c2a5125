// The sampler on random cases: against a naive reference, and against itself on other views of the same row.
#include "runtime/sampler.h"
#include "tests/runtime/sampler_reference.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace tp {
namespace {

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

// May raise: whether penalties may raise logits.
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
  // Penalties matter most for the tokens that would win.
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
  TokenHistory history;
  history.add_prompt(c.prompt);
  for (const TokenId token : c.generated) history.add_generated(token);
  return history;
}

Candidates complete_row(const std::vector<float>& logits) {
  return merge_candidates(std::vector{shard_candidates(logits, 0, logits.size())});
}

// The row as `ranks` shards of random sizes, some of them empty, contribute it.
Candidates sharded_row(const std::vector<float>& logits, std::size_t ranks, std::size_t best, Dice& dice) {
  std::vector<std::size_t> ends;
  for (std::size_t rank = 0; rank + 1 < ranks; ++rank) ends.push_back(dice.below(logits.size() + 1));
  ends.push_back(logits.size());
  std::sort(ends.begin(), ends.end());
  std::vector<ShardCandidates> parts;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const auto shard = std::span(logits).subspan(begin, end - begin);
    parts.push_back(shard_candidates(shard, static_cast<TokenId>(begin), best));
    begin = end;
  }
  return merge_candidates(parts);
}

void expect_same(const Choice& left, const Choice& right) {
  EXPECT_EQ(left.id, right.id);
  EXPECT_NEAR(left.logprob, right.logprob, 1e-6);
  ASSERT_EQ(left.top_logprobs.size(), right.top_logprobs.size());
  for (std::size_t i = 0; i < left.top_logprobs.size(); ++i) {
    EXPECT_EQ(left.top_logprobs[i].id, right.top_logprobs[i].id);
    EXPECT_NEAR(left.top_logprobs[i].logprob, right.top_logprobs[i].logprob, 1e-6);
  }
}

TEST(SamplerProperty, BestCandidatesOfAnyShardsGiveTheChoiceOfTheCompleteRow) {
  Dice dice(101);
  Sampler sampler;
  int reduced = 0;
  for (int repeat = 0; repeat < 2500; ++repeat) {
    const SamplingCase c = random_case(dice, 300, dice.one_in(4));
    const TokenHistory history = history_of(c);
    const std::size_t needed = candidates_needed(c.params, history, c.logits.size());
    const Candidates candidates = sharded_row(c.logits, 1 + dice.below(6), needed, dice);
    const Candidates complete = complete_row(c.logits);
    reduced += candidates.complete() ? 0 : 1;
    for (std::uint64_t position = 0; position < 3; ++position) {
      const DrawKey key{static_cast<std::uint64_t>(repeat), 0, position};
      expect_same(sampler.choose(candidates, c.params, history, key),
                  sampler.choose(complete, c.params, history, key));
    }
    ASSERT_FALSE(HasFailure()) << "case " << repeat;
  }
  EXPECT_GT(reduced, 500);
}

TEST(SamplerProperty, ChoiceDoesNotDependOnTheOrderOfTheCandidates) {
  Dice dice(102);
  Sampler sampler;
  for (int repeat = 0; repeat < 1500; ++repeat) {
    const SamplingCase c = random_case(dice, 300, true);
    const TokenHistory history = history_of(c);
    const Candidates candidates = complete_row(c.logits);
    Candidates shuffled = candidates;
    std::shuffle(shuffled.entries.begin(), shuffled.entries.end(), dice.engine());
    const DrawKey key{static_cast<std::uint64_t>(repeat), 1, 2};
    expect_same(sampler.choose(candidates, c.params, history, key),
                sampler.choose(shuffled, c.params, history, key));
    ASSERT_FALSE(HasFailure()) << "case " << repeat;
  }
}

TEST(SamplerProperty, UsedSamplerChoosesAsAFreshOne) {
  Dice dice(103);
  Sampler used;
  for (int repeat = 0; repeat < 500; ++repeat) {
    const SamplingCase c = random_case(dice, 300, true);
    const DrawKey key{9, 9, static_cast<std::uint64_t>(repeat)};
    expect_same(used.choose(complete_row(c.logits), c.params, history_of(c), key),
                Sampler().choose(complete_row(c.logits), c.params, history_of(c), key));
  }
}

struct ChiSquare {
  double value = 0.0;
  int freedom = 0;

  // How many standard deviations the value is above its mean (Wilson and Hilferty: its cube root is nearly
  // normal).
  double deviations() const {
    const double spread = 2.0 / (9.0 * freedom);
    return (std::cbrt(value / freedom) - (1.0 - spread)) / std::sqrt(spread);
  }
};

// Over cells that are expected at least 5 times. A token of probability 0 must not occur at all.
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

std::vector<int> count_draws(Sampler& sampler, const SamplingCase& c, std::uint64_t seed, int draws) {
  const TokenHistory history = history_of(c);
  const Candidates candidates = complete_row(c.logits);
  std::vector<int> counts(c.logits.size(), 0);
  for (int draw = 0; draw < draws; ++draw) {
    // Positions and samples both vary, as those of one request do.
    const DrawKey key{seed, static_cast<std::uint64_t>(draw % 4), static_cast<std::uint64_t>(draw / 4)};
    ++counts[static_cast<std::size_t>(sampler.choose(candidates, c.params, history, key).id)];
  }
  return counts;
}

TEST(SamplerProperty, DrawsOccurAsOftenAsTheReferenceSays) {
  Dice dice(104);
  Sampler sampler;
  constexpr int kDraws = 3000;
  ChiSquare all;
  for (std::uint64_t repeat = 0; repeat < 80; ++repeat) {
    const SamplingCase c = random_case(dice, 60, true);
    const ChiSquare one =
        compare_frequencies(reference_probabilities(c), count_draws(sampler, c, repeat, kDraws), kDraws);
    ASSERT_FALSE(HasFailure()) << "case " << repeat;
    if (one.freedom == 0) continue;
    ASSERT_LT(one.deviations(), 5.0) << "case " << repeat;
    all.value += one.value;
    all.freedom += one.freedom;
  }
  EXPECT_GT(all.freedom, 200);
  EXPECT_NEAR(all.deviations(), 0.0, 4.0);
}

TEST(SamplerProperty, NucleusOfALargeVocabularyIsThatOfTheReference) {
  Dice dice(105);
  Sampler sampler;
  for (const float top_p : {0.1F, 0.5F, 0.9F, 0.999F}) {
    SamplingCase c;
    c.logits.resize(20000);
    std::normal_distribution<float> normal(0.0F, 3.0F);
    for (float& logit : c.logits) logit = normal(dice.engine());
    c.params.top_p = top_p;
    const std::vector<double> probabilities = reference_probabilities(c);
    const Candidates candidates = complete_row(c.logits);
    for (std::uint64_t position = 0; position < 300; ++position) {
      const Choice choice = sampler.choose(candidates, c.params, {}, {1, 1, position});
      ASSERT_GT(probabilities[static_cast<std::size_t>(choice.id)], 0.0) << top_p;
    }
  }
}

}  // namespace
}  // namespace tp

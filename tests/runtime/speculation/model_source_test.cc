// The passes of a draft model, run by the fake worker.
#include "runtime/speculation/model_source.h"

#include "runtime/speculation/calibration.h"
#include "runtime/speculation/draft_budget.h"
#include "runtime/speculation/mixed_source.h"
#include "tests/reference/random.h"
#include "tests/runtime/scheduling/fake_worker.h"
#include "tests/runtime/speculation/drafting.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::Drafting;
using test::joined;
using test::limits_of;
using test::limits_of_layer;
using test::Tokens;

TEST(ModelSource, DraftsItsModelsContinuation) {
  Drafting drafting(limits_of());
  const Tokens text = {1, 2, 3, 4, 5};
  const Draft draft = drafting.draft(1, text, 4);
  EXPECT_EQ(draft.tokens, test::continuation(text, 4));
  ASSERT_EQ(draft.chances.size(), 4U);
  EXPECT_TRUE(std::ranges::is_sorted(draft.chances, std::ranges::greater()));
  ASSERT_EQ(drafting.passes.size(), 4U);
  EXPECT_EQ(drafting.passes[0].tokens.size(), 5U);
  EXPECT_EQ(drafting.passes[3].tokens.size(), 1U);
}

// A draft model's logits may have more rows than the tokenizer has tokens.
TEST(ModelSource, EndsADraftBeforeAnInvalidToken) {
  const Tokens text = {1, 2, 3, 4, 5};
  const Tokens expected = test::continuation(text, 8);
  const auto largest = std::ranges::max_element(expected);
  DraftModelLimits limits = limits_of();
  limits.known_ids = static_cast<std::size_t>(*largest);
  Drafting drafting(limits);
  EXPECT_EQ(drafting.draft(1, text, 8).tokens, Tokens(expected.begin(), largest));
}

TEST(ModelSource, ContinuesAfterTheLastAcceptedToken) {
  Drafting drafting(limits_of());
  Tokens text = {1, 2, 3, 4, 5};
  const Tokens drafted = drafting.draft(1, text, 4).tokens;
  // The model accepts two draft tokens and then chooses a different token.
  text = joined(text, {drafted[0], drafted[1], (drafted[2] + 1) % 97});
  drafting.passes.clear();
  EXPECT_EQ(drafting.draft(1, text, 3).tokens, test::continuation(text, 3));
  EXPECT_EQ(drafting.passes.front().chunks.front().start_position, 7U);
  EXPECT_EQ(drafting.passes.front().tokens, Tokens{text.back()});
  // The model accepts all three draft tokens. The last one is not in the cache yet.
  text = joined(text, test::continuation(text, 4));
  drafting.passes.clear();
  EXPECT_EQ(drafting.draft(1, text, 1).tokens, test::continuation(text, 1));
  EXPECT_EQ(drafting.passes.front().tokens.size(), 2U);
}

TEST(ModelSource, StaysCorrectForAnyAcceptance) {
  for (const CacheWindows& windows : {CacheWindows{std::nullopt}, CacheWindows{5, std::nullopt}}) {
    reference::Random random(7);
    // 20 blocks have no room for all sequences.
    for (const std::size_t blocks : {std::size_t{1000}, std::size_t{20}}) {
      Drafting drafting(limits_of(blocks, windows));
      std::map<std::uint64_t, Tokens> texts;
      std::size_t drafts = 0;
      for (std::size_t round = 0; round < 300; ++round) {
        const std::uint64_t id = random.integer(1, 6) + 10 * (round / 60);
        const auto [entry, is_new] = texts.try_emplace(id);
        Tokens& text = entry->second;
        for (std::size_t i = is_new ? random.integer(1, 40) : 1; i > 0; --i)
          text.push_back(static_cast<TokenId>(random.integer(0, 2)));
        const Draft draft = drafting.draft(id, text, random.integer(1, 6));
        const Tokens expected = test::continuation(text, draft.tokens.size());
        EXPECT_EQ(draft.tokens, expected);
        drafts += draft.tokens.size();
        const std::size_t accepted = random.integer(0, draft.tokens.size());
        text.insert(text.end(), expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(accepted));
        if (text.size() < 60 && random.integer(0, 15) != 0) continue;
        drafting.source().end(id);
        texts.erase(id);
      }
      EXPECT_GT(drafts, 300U) << "the test proves nothing";
    }
  }
}

// A layer skips the sequence's first token, and only values computed from the model's states are kept.
TEST(ModelSource, RecomputesALayersDraftFromTheModelsStates) {
  Drafting drafting(limits_of_layer());
  Tokens text = {1, 2, 3, 4, 5};
  const Tokens drafted = drafting.draft(1, text, 3).tokens;
  EXPECT_EQ(drafted, test::continuation({2, 3, 4, 5}, 3));
  ASSERT_EQ(drafting.passes.size(), 3U);
  EXPECT_EQ(drafting.passes[0].tokens, Tokens({2, 3, 4, 5}));
  EXPECT_FALSE(drafting.passes[0].reads_own_states);
  EXPECT_EQ(drafting.passes[1].tokens, Tokens{drafted[0]});
  EXPECT_EQ(drafting.passes[1].chunks[0].start_position, 4U);
  EXPECT_TRUE(drafting.passes[1].reads_own_states);
  EXPECT_TRUE(drafting.passes[2].reads_own_states);
  text = joined(text, joined(drafted, {6}));
  drafting.passes.clear();
  drafting.draft(1, text, 1);
  EXPECT_EQ(drafting.passes.front().chunks.front().start_position, 4U);
  EXPECT_EQ(drafting.passes.front().tokens, joined(drafted, {6}));
}

TEST(ModelSource, FollowsAPromptForALayer) {
  Drafting drafting(limits_of_layer());
  EXPECT_EQ(drafting.draft(1, {1}, 0).tokens, Tokens());
  EXPECT_TRUE(drafting.passes.empty());
  EXPECT_EQ(drafting.draft(1, {1, 2, 3, 4}, 0).tokens, Tokens());
  ASSERT_EQ(drafting.passes.size(), 1U);
  EXPECT_EQ(drafting.passes.front().tokens, Tokens({2, 3, 4}));
  EXPECT_TRUE(drafting.passes.front().outputs.empty());
  // A preempted sequence computes its prompt again.
  EXPECT_EQ(drafting.draft(1, {1, 2}, 0).tokens, Tokens());
  EXPECT_EQ(drafting.passes.size(), 1U);
  EXPECT_EQ(drafting.draft(1, {1, 2, 3, 4, 5}, 1).tokens, test::continuation({2, 3, 4, 5}, 1));
  EXPECT_EQ(drafting.passes.back().tokens, Tokens{5});
}

TEST(ModelSource, KeepsSequencesOfALayerApartByTheFirstToken) {
  Drafting drafting(limits_of_layer());
  const auto begin_of = [&](std::uint64_t sequence, TokenId first) {
    drafting.passes.clear();
    drafting.draft(sequence, {first, 2, 3, 4, 5, 6, 7}, 1);
    drafting.source().end(sequence);
    return drafting.passes.front().chunks.front().start_position;
  };
  EXPECT_EQ(begin_of(1, 1), 0U);
  EXPECT_EQ(begin_of(2, 9), 0U);
  EXPECT_EQ(begin_of(3, 1), 4U);
}

TEST(ModelSource, ComputesLongPromptsInSeveralSteps) {
  Drafting drafting(limits_of());
  const Tokens text(40, 3);
  EXPECT_EQ(drafting.draft(1, text, 2).tokens, Tokens());
  EXPECT_EQ(drafting.draft(1, joined(text, {1}), 2).tokens, Tokens());
  EXPECT_EQ(drafting.draft(1, joined(text, {1, 2}), 2).tokens, test::continuation(joined(text, {1, 2}), 2));
  for (const Forward& pass : drafting.passes) EXPECT_LE(pass.tokens.size(), 16U);
}

// A step of many sequences has more tokens than a chunk, but windows leave room for one chunk only.
TEST(ModelSource, ComputesLongPromptsInTheChunksThatAWindowHasRoomFor) {
  DraftModelLimits limits = limits_of(0, CacheWindows{5});
  limits.step_tokens = 64;
  limits.cache.chunk = 8;
  limits.cache_blocks = limits.cache.blocks_for(1000);
  Drafting drafting(limits);
  Tokens text(40, 3);
  std::size_t steps = 1;
  while (drafting.draft(1, text, 1).tokens.empty() && steps < 10) {
    ++steps;
    text.push_back(static_cast<TokenId>(steps));
  }
  EXPECT_EQ(steps, 6U) << "5 of 8 tokens, and what came meanwhile";
}

TEST(ModelSource, FindsOtherSequencesBlocks) {
  Drafting drafting(limits_of());
  const Tokens text = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  drafting.draft(1, text, 1);
  drafting.source().end(1);
  drafting.passes.clear();
  drafting.draft(2, text, 1);
  EXPECT_EQ(drafting.passes.front().chunks.front().start_position, 8U);
}

TEST(ModelSource, SharesNothingThatMayNotBeShared) {
  Drafting drafting(limits_of());
  const Tokens text = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Request request;
  std::uint64_t id = 0;
  const auto first_position = [&] {
    drafting.passes.clear();
    const DraftQuery query{
        .sequence = ++id, .tokens = text, .prompt_tokens = 1, .max_tokens = 1, .request = &request};
    drafting.source().draft(std::span(&query, 1));
    return drafting.passes.front().chunks.front().start_position;
  };
  request.cache_salt = "a";
  EXPECT_EQ(first_position(), 0U);
  request.cache_salt = "b";
  EXPECT_EQ(first_position(), 0U);
  EXPECT_EQ(first_position(), 8U);
  request.cache_prompt = false;
  EXPECT_EQ(first_position(), 0U);
}

TEST(ModelSource, DraftsNothingWithoutRoomAndDropsTheLongestWaiting) {
  Drafting drafting(limits_of(5));
  const Tokens eight = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(drafting.draft(1, eight, 1).tokens.size(), 1U);
  EXPECT_EQ(drafting.draft(2, joined({9}, eight), 1).tokens.size(), 1U);
  EXPECT_EQ(drafting.worker().sequences(), 2U);
  // The source needs one more block than is free, so it drops the first sequence.
  EXPECT_EQ(drafting.draft(3, {7, 7, 7}, 1).tokens.size(), 1U);
  EXPECT_EQ(drafting.worker().sequences(), 2U);
  EXPECT_EQ(drafting.draft(4, Tokens(16, 1), 8).tokens, test::continuation(Tokens(16, 1), 5))
      << "five blocks have room for 20 tokens, and the last guess needs none";
  EXPECT_EQ(drafting.draft(4, Tokens(21, 1), 8).tokens, Tokens());
}

TEST(ModelSource, EndsAtTheMaximumLengthAndAtUnknownTokens) {
  DraftModelLimits limits = limits_of();
  limits.max_length = 12;
  Drafting drafting(limits);
  EXPECT_EQ(drafting.draft(1, Tokens(10, 1), 8).tokens.size(), 3U);
  EXPECT_EQ(drafting.draft(1, Tokens(12, 1), 8).tokens.size(), 1U);
  EXPECT_EQ(drafting.draft(1, Tokens(13, 1), 8).tokens.size(), 0U);
  EXPECT_EQ(drafting.draft(2, {1, 2, 97}, 8).tokens, Tokens());
  EXPECT_EQ(drafting.draft(2, {1, 2, 97, 3}, 8).tokens, Tokens());
}

TEST(ModelSource, BeginsAgainAfterAPassThatFailed) {
  Drafting drafting(limits_of());
  const Tokens text = {1, 2, 3, 4, 5};
  drafting.after_pass = [] { throw std::bad_alloc(); };
  EXPECT_THROW(drafting.draft(1, text, 3), std::bad_alloc);
  drafting.source().end(1);
  drafting.after_pass = [] {};
  drafting.passes.clear();
  EXPECT_EQ(drafting.draft(2, text, 3).tokens, test::continuation(text, 3));
}

TEST(ModelSource, DraftsAsFarAsItPays) {
  Drafting drafting(limits_of());
  const Tokens text = {1, 2, 3};
  const auto drafts = [&](double token_seconds, double row_seconds) {
    static std::uint64_t id = 0;
    const DraftQuery query{.sequence = ++id,
                           .tokens = text,
                           .prompt_tokens = 1,
                           .max_tokens = 8,
                           .token_seconds = token_seconds,
                           .row_seconds = row_seconds};
    return drafting.source().draft(std::span(&query, 1)).front().tokens.size();
  };
  EXPECT_EQ(drafts(1e6, 0.0), 8U) << "a step of eleven days";
  EXPECT_EQ(drafts(1.0, 100.0), 1U) << "rows that cost a hundred tokens each";
}

TEST(Calibration, LearnsHowOftenProbableTokensAreAccepted) {
  Calibration calibration;
  EXPECT_GT(calibration.chance(0.95), calibration.chance(0.3));
  for (int i = 0; i < 60; ++i) {
    calibration.add(0.95, i % 2 == 0);
    calibration.add(0.3, false);
  }
  EXPECT_NEAR(calibration.chance(0.95), 0.5, 0.1);
  EXPECT_LT(calibration.chance(0.3), 0.1);
}

TEST(DraftBudget, LimitsTheCostOfUselessDrafts) {
  DraftBudget budget(1.0);
  double lost = 0.0;
  for (int step = 0; step < 10000; ++step) {
    const double loss = budget.allows() ? 0.5 : 0.0;
    budget.step(1.0, loss);
    lost += loss;
  }
  EXPECT_LT(lost, 0.02 * 10000 + 5.0);
  EXPECT_GT(lost, 100.0) << "they are tried now and then";
}

TEST(DraftBudget, DoesNotLimitDraftsThatPay) {
  DraftBudget budget(1.0);
  for (int step = 0; step < 1000; ++step) {
    ASSERT_TRUE(budget.allows());
    budget.step(0.0, step % 2 == 0 ? -0.6 : 0.5);
  }
}

TEST(DraftBudget, RecoversFromAProcessThatWasStopped) {
  DraftBudget budget(1.0);
  budget.step(1.0, 1e9);
  for (int step = 0; step < 2000; ++step) budget.step(1.0, 0.0);
  EXPECT_TRUE(budget.allows());
}

// Drafts `token` with the probability `chance` for even sequences, and nothing for odd ones.
class OneDraft : public DraftSource {
 public:
  OneDraft(TokenId token, double chance) : token_(token), chance_(chance) {}
  std::vector<Draft> draft(std::span<const DraftQuery> queries) override {
    std::vector<Draft> drafts;
    for (const DraftQuery& query : queries)
      drafts.push_back(query.sequence % 2 == 0 ? Draft{{token_}, {chance_}} : Draft{});
    return drafts;
  }
  void end(std::uint64_t /*sequence*/) override {}

 private:
  TokenId token_;
  double chance_;
};

TEST(MixedSource, AsksTheOtherSourceIfTheFreeOneIsUnlikelyToBeRight) {
  const auto token_of = [](double chance, std::uint64_t sequence) {
    MixedSource mixed(std::make_unique<OneDraft>(1, chance), std::make_unique<OneDraft>(2, 0.1));
    const DraftQuery query{.sequence = sequence, .tokens = {}, .prompt_tokens = 0, .max_tokens = 1};
    const Draft draft = mixed.draft(std::span(&query, 1)).front();
    return draft.tokens.empty() ? -1 : draft.tokens.front();
  };
  EXPECT_EQ(token_of(0.6, 2), 1);
  EXPECT_EQ(token_of(0.4, 2), 2);
  EXPECT_EQ(token_of(0.6, 3), -1);
}

}  // namespace
}  // namespace tp

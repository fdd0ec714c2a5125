#include "runtime/modes/unmasked_text.h"

#include "tests/error_of.h"
#include "tp/error.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace tp {
namespace {

using Above = DiffusionSpec::Above;
using Schedule = DiffusionSpec::Schedule;

constexpr TokenId kMask = 99;
constexpr double kNotMasked = -std::numeric_limits<double>::infinity();

UnmaskingPlan plan_of(DiffusionSpec spec, const Unmasking& asked, std::size_t tokens) {
  spec.mask_token = kMask;
  return {spec, asked, tokens};
}

// Returns how many positions each pass unmasks if all proposals have equal confidence.
std::vector<std::size_t> unmasked_by_passes(const UnmaskingPlan& plan, std::size_t prompt,
                                            std::size_t tokens) {
  UnmaskedText text(plan, std::vector<TokenId>(prompt, 1), tokens, 1000);
  std::vector<std::size_t> counts;
  while (!text.done()) {
    const std::vector<Proposal> proposals(text.pass_rows().size(), Proposal{.id = 7, .confidence = 0.5});
    counts.push_back(text.unmask(proposals).size());
  }
  return counts;
}

using Counts = std::vector<std::size_t>;

TEST(UnmaskedText, DividesABlocksMasksEvenlyAmongItsPassesTheFirstOnesTakingWhatIsLeft) {
  const UnmaskingPlan plan = plan_of({}, {.steps = 6, .block_length = 8}, 16);
  EXPECT_EQ(unmasked_by_passes(plan, 5, 16), (Counts{3, 3, 2, 3, 3, 2}));
}

TEST(UnmaskedText, HasOnePassForEachTokenByItself) {
  EXPECT_EQ(unmasked_by_passes(plan_of({}, {}, 5), 3, 5), (Counts{1, 1, 1, 1, 1}));
}

TEST(UnmaskedText, HasNoPassesThatWouldSettleNothing) {
  EXPECT_EQ(unmasked_by_passes(plan_of({}, {.steps = 50}, 4), 3, 4), (Counts{1, 1, 1, 1}));
  // The first of 16 passes over 16 masks unmasks int(16 x 0.999 / 16) = 0.
  const Counts counts =
      unmasked_by_passes(plan_of({.schedule = Schedule::decaying}, {.steps = 16}, 16), 3, 16);
  EXPECT_EQ(counts.size(), 15U);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), 16U);
}

// int(n (1 - s / t)) with times from 1 to 0.001. The last pass takes all. Computed by hand.
TEST(UnmaskedText, UnmasksTheShareOfEachTimeStep) {
  const UnmaskingPlan plan = plan_of({.schedule = Schedule::decaying}, {.steps = 5}, 16);
  EXPECT_EQ(unmasked_by_passes(plan, 3, 16), (Counts{3, 3, 3, 3, 4}));
}

TEST(UnmaskedText, EndsTheModelsLastBlockIfTheContextAllows) {
  const UnmaskingPlan plan = plan_of({.block_length = 4, .schedule = Schedule::of_block}, {}, 5);
  UnmaskedText text(plan, {1, 2, 3, 4, 5, 6}, 5, 1000);
  EXPECT_EQ(text.pass_tokens().size(), 8U);  // the first block with masks ends here
  EXPECT_EQ(unmasked_by_passes(plan, 6, 5), (Counts{1, 1, 1, 1, 1, 1}));
  UnmaskedText cut(plan, {1, 2, 3, 4, 5, 6}, 3, 9);
  for (int pass = 0; pass < 2; ++pass)
    cut.unmask(std::vector<Proposal>(cut.pass_rows().size(), Proposal{7, 0.5}));
  EXPECT_EQ(cut.pass_tokens().size(), 9U);
}

TEST(UnmaskedText, BlocksOfARequestBeginAfterThePrompt) {
  const UnmaskingPlan plan = plan_of({}, {.block_length = 2}, 4);
  UnmaskedText text(plan, {1, 2, 3}, 4, 1000);
  EXPECT_EQ(text.pass_tokens().size(), 7U);
  EXPECT_EQ(text.pass_rows(), (std::vector<std::size_t>{3, 4}));
  text.unmask(std::vector<Proposal>{{10, 0.1}, {11, 0.2}});
  EXPECT_EQ(text.unmasked_end(), 3U);  // position 4 has its token, position 3 not yet
  EXPECT_EQ(text.token(4), 11);
  text.unmask(std::vector<Proposal>{{12, 0.1}});
  EXPECT_EQ(text.unmasked_end(), 5U);
  EXPECT_EQ(text.pass_rows(), (std::vector<std::size_t>{5, 6}));
}

TEST(UnmaskedText, AsksForTheRowsBeforeItsMasksIfLogitsAreShifted) {
  UnmaskedText text(plan_of({.shifted = true}, {}, 3), {1, 2}, 3, 1000);
  EXPECT_EQ(text.pass_rows(), (std::vector<std::size_t>{1, 2, 3}));
}

// The block consists of a prompt's tail and two masks, but the schedule unmasks three. torch.topk determines
// the third position, as SDAR's fixture shows.
TEST(UnmaskedText, MayUnmaskMoreThanItsMasksWithABlocksSchedule) {
  const UnmaskingPlan plan =
      plan_of({.block_length = 8, .schedule = Schedule::of_block}, {.steps = 3, .block_length = 8}, 2);
  UnmaskedText text(plan, {1, 2, 3, 4, 5, 6}, 2, 1000);
  ASSERT_EQ(text.pass_rows().size(), 8U);
  std::vector<Proposal> proposals;
  for (TokenId id = 0; id < 8; ++id) proposals.push_back({20 + id, 0.1 * (id + 1)});
  std::vector<std::size_t> positions;
  for (const UnmaskedToken& token : text.unmask(proposals)) positions.push_back(token.position);
  EXPECT_EQ(positions, (std::vector<std::size_t>{4, 6, 7}));
  EXPECT_EQ(text.token(4), 24);
  EXPECT_TRUE(text.done());
}

TEST(PositionsToSettle, AreTheMostConfidentOnesAndOfEqualOnesTheFirst) {
  const UnmaskingPlan plan = plan_of({}, {.steps = 2}, 6);
  const BlockProgress block{.length = 6, .masks_at_start = 6, .masks = 6};
  EXPECT_EQ(positions_to_unmask(plan, block, std::vector<double>{.5, .5, .5, .5, .5, .5}), (Counts{0, 1, 2}));
  EXPECT_EQ(positions_to_unmask(plan, block, std::vector<double>{.1, .5, .9, .5, .5, .2}), (Counts{1, 2, 3}));
}

TEST(PositionsToSettle, SequentiallyAreTheFirstMasks) {
  const UnmaskingPlan plan = plan_of({}, {.steps = 2, .rule = UnmaskRule::sequential}, 4);
  const BlockProgress block{.length = 5, .masks_at_start = 4, .masks = 4};
  EXPECT_EQ(positions_to_unmask(plan, block, std::vector<double>{kNotMasked, .1, .2, .3, .9}),
            (Counts{1, 2}));
}

TEST(PositionsToSettle, ByThresholdAreAllThatReachItAndAtLeastOne) {
  const UnmaskingPlan plan = plan_of({}, {.rule = UnmaskRule::threshold, .threshold = 0.5F}, 4);
  const BlockProgress block{.length = 4, .masks_at_start = 4, .masks = 4};
  EXPECT_EQ(positions_to_unmask(plan, block, std::vector<double>{.6, .4, .5, .9}), (Counts{0, 2, 3}));
  EXPECT_EQ(positions_to_unmask(plan, block, std::vector<double>{.1, .4, .3, .2}), (Counts{1}));
}

TEST(PositionsToSettle, ByThresholdWithinAScheduleAreAtMostTheSchedulesTotal) {
  const UnmaskingPlan plan = plan_of({.above = Above::within_schedule},
                                     {.steps = 4, .rule = UnmaskRule::threshold, .threshold = 0.5F}, 8);
  BlockProgress block{.length = 8, .masks_at_start = 8, .masks = 8};
  EXPECT_EQ(positions_to_unmask(plan, block, std::vector<double>(8, 0.9)), (Counts{0, 1}));
  block = {.length = 8, .masks_at_start = 8, .masks = 7, .pass = 1};  // one fewer than the schedule allows
  std::vector<double> rest(8, 0.9);
  rest[0] = kNotMasked;
  EXPECT_EQ(positions_to_unmask(plan, block, rest), (Counts{1, 2, 3}));
}

TEST(PositionsToSettle, ByThresholdOfBlocksAreAtLeastTheSchedules) {
  const UnmaskingPlan plan =
      plan_of({.block_length = 4, .schedule = Schedule::of_block, .above = Above::no_fewer_than_schedule},
              {.steps = 2, .rule = UnmaskRule::threshold, .threshold = 0.5F}, 4);
  const BlockProgress block{.length = 4, .masks_at_start = 4, .masks = 4};
  EXPECT_EQ(positions_to_unmask(plan, block, std::vector<double>{.6, .7, .5, .9}), (Counts{0, 1, 3}));
  EXPECT_EQ(positions_to_unmask(plan, block, std::vector<double>{.6, .2, .3, .1}), (Counts{0, 2}));
}

// For any rule and numbers, every pass unmasks something, and all masks get a token.
TEST(UnmaskedText, AlwaysComesToAnEnd) {
  std::mt19937 random(3);
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  for (int trial = 0; trial < 3000; ++trial) {
    const std::size_t block = 1 + below(9);
    const std::size_t blocks = 1 + below(4);
    DiffusionSpec spec{.block_length = below(2) * 4};
    spec.schedule = static_cast<Schedule>(spec.block_length != 0 ? 1 : 2 * below(2));
    spec.above = static_cast<Above>(below(3));
    Unmasking asked{.steps = static_cast<int>(blocks * below(2 * block)),
                    .block_length = static_cast<int>(block),
                    .rule = static_cast<UnmaskRule>(below(5)),
                    .threshold = 0.1F * static_cast<float>(below(11))};
    const std::size_t tokens = block * blocks;
    UnmaskedText text(plan_of(spec, asked, tokens), std::vector<TokenId>(1 + below(12), 1), tokens, 1000);
    std::size_t passes = 0;
    while (!text.done()) {
      ASSERT_LE(++passes, tokens + block) << trial;
      std::vector<Proposal> proposals;
      for (std::size_t i = text.pass_rows().size(); i > 0; --i)
        proposals.push_back({7, 0.1 * static_cast<double>(below(11))});
      ASSERT_FALSE(proposals.empty()) << trial;
      ASSERT_FALSE(text.unmask(proposals).empty()) << trial;
    }
    ASSERT_EQ(std::ranges::count(text.pass_tokens(), kMask), 0) << trial;
    ASSERT_EQ(text.unmasked_end(), text.pass_tokens().size()) << trial;
  }
}

void expect_refusal(const Unmasking& asked, std::size_t tokens, const std::string& text) {
  EXPECT_EQ(test::error_of<RequestError>([&] { plan_of({}, asked, tokens); }), text);
}

TEST(UnmaskingPlan, RefusesNumbersThatCannotBeDividedEvenly) {
  expect_refusal(
      {.block_length = 6}, 16,
      "cannot unmask tokens in blocks: `block_length` must divide `max_tokens` evenly, found 6 and "
      "16; change one of them");
  expect_refusal(
      {.steps = 5, .block_length = 8}, 16,
      "cannot unmask tokens: `steps` must be a multiple of the 2 blocks (16 tokens in blocks of 8), "
      "found 5; give each block the same number of passes");
}

// The text has 3 prompt tokens and two blocks of 4 tokens. Each block takes two passes.
TEST(UnmaskedText, ComputesLessInTheLaterPassesOfABlockIfItsCacheIsApproximate) {
  struct Pass {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool operator==(const Pass&) const = default;
  };
  const auto passes_of = [](UnmaskCache cache, bool shifted) {
    const Unmasking asked{.steps = 4, .block_length = 4, .cache = cache};
    UnmaskedText text(plan_of({.shifted = shifted}, asked, 8), {1, 2, 3}, 8, 1000);
    std::vector<Pass> passes;
    while (!text.done()) {
      passes.push_back({text.pass_begin(), text.pass_tokens().size()});
      EXPECT_EQ(text.uses_cache(), cache != UnmaskCache::exact && passes.size() % 2 == 0);
      EXPECT_GE(text.pass_rows().front(), text.pass_begin());
      EXPECT_LT(text.pass_rows().back(), passes.back().end);
      text.unmask(std::vector<Proposal>(text.pass_rows().size(), Proposal{7, 0.5}));
    }
    EXPECT_FALSE(text.uses_cache());
    return passes;
  };
  using Passes = std::vector<Pass>;
  EXPECT_TRUE(passes_of(UnmaskCache::exact, false) == (Passes{{0, 11}, {0, 11}, {0, 11}, {0, 11}}));
  EXPECT_TRUE(passes_of(UnmaskCache::prefix, false) == (Passes{{0, 11}, {3, 11}, {0, 11}, {7, 11}}));
  EXPECT_TRUE(passes_of(UnmaskCache::dual, false) == (Passes{{0, 11}, {3, 7}, {0, 11}, {7, 11}}));
  EXPECT_TRUE(passes_of(UnmaskCache::dual, true) == (Passes{{0, 11}, {2, 7}, {0, 11}, {6, 11}}));
}

}  // namespace
}  // namespace tp

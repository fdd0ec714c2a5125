// The passes that trained drafters run: sequences share prefixes that were computed from states, and drafters
// of blocks get context and blocks.
#include "tests/runtime/speculation/drafting.h"

#include <cstddef>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::Drafting;
using test::joined;
using test::limits_of;
using test::limits_of_layer;
using test::Tokens;

// If the model found a prefix in its cache, there are no hidden states for it. Keys and values that the
// drafter computes without those states must not be shared.
TEST(DrafterSource, SharesOnlyBlocksComputedFromStates) {
  DraftModelLimits limits = limits_of_layer();
  std::size_t missing = SIZE_MAX;  // position without a state
  limits.has_state = [&](SequenceId, std::size_t position) { return position != missing; };
  Drafting drafting(limits);
  const auto begin_of = [&](std::uint64_t sequence) {
    drafting.passes.clear();
    drafting.draft(sequence, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 1);
    drafting.source().end(sequence);
    return drafting.passes.front().chunks.front().start_position;
  };
  missing = 5;
  EXPECT_EQ(begin_of(1), 0U);
  EXPECT_EQ(begin_of(2), 4U) << "the first block is complete";
  missing = SIZE_MAX;
  EXPECT_EQ(begin_of(3), 4U);
  EXPECT_EQ(begin_of(4), 8U);
}

// The model found 8 tokens in its cache, so it has no states for them. A drafter that waits finds these 8
// tokens in its own cache.
TEST(DrafterSource, WaitsForTheFirstStateOfASequence) {
  DraftModelLimits limits = limits_of_layer();
  std::size_t first = 0;  // position with the first state
  limits.has_state = [&](SequenceId, std::size_t position) { return position >= first; };
  Drafting drafting(limits);
  const Tokens text = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  drafting.draft(1, text, 1);
  drafting.source().end(1);
  drafting.passes.clear();
  first = 8;
  EXPECT_EQ(drafting.draft(2, Tokens(text.begin(), text.begin() + 9), 0).tokens, Tokens());
  EXPECT_TRUE(drafting.passes.empty());
  EXPECT_EQ(drafting.draft(2, text, 1).tokens.size(), 1U);
  EXPECT_EQ(drafting.passes.front().chunks.front().start_position, 8U);
}

DraftModelLimits limits_of_blocks(bool samples_from_anchor) {
  DraftModelLimits limits = limits_of();
  limits.block = {.size = 4, .mask_token = 96, .samples_from_anchor = samples_from_anchor};
  return limits;
}

TEST(DrafterSource, GivesADrafterOfBlocksItsContextAndThenABlock) {
  for (const bool from_anchor : {false, true}) {
    Drafting drafting(limits_of_blocks(from_anchor));
    EXPECT_EQ(drafting.draft(1, {1, 2}, 0).tokens, Tokens());
    Tokens text = {1, 2, 3, 4, 5};
    EXPECT_EQ(drafting.draft(1, text, 8).tokens.size(), from_anchor ? 4U : 3U);
    ASSERT_EQ(drafting.passes.size(), 3U);
    EXPECT_EQ(drafting.passes[0].tokens, Tokens{1});
    EXPECT_EQ(drafting.passes[1].tokens, Tokens({2, 3, 4}));
    EXPECT_TRUE(drafting.passes[1].gives_context);
    EXPECT_TRUE(drafting.passes[1].outputs.empty());
    const Forward& block = drafting.passes[2];
    EXPECT_EQ(block.tokens, Tokens({5, 96, 96, 96}));
    EXPECT_FALSE(block.gives_context);
    EXPECT_EQ(block.chunks.front().start_position, 4U);
    EXPECT_EQ(block.outputs.front().rows.first, from_anchor ? 0U : 1U);
    // The text grows by two tokens. The earlier block left nothing in the cache.
    drafting.passes.clear();
    drafting.draft(1, joined(text, {6, 7}), 2);
    ASSERT_EQ(drafting.passes.size(), 2U);
    EXPECT_EQ(drafting.passes[0].tokens, Tokens({5, 6}));
    EXPECT_EQ(drafting.passes[0].chunks.front().start_position, 4U);
    EXPECT_EQ(drafting.passes[1].outputs.front().rows.count, 2U);
  }
}

}  // namespace
}  // namespace tp

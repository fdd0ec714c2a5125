// Small cases of cache decisions: sharing, eviction, rejection.
#include "runtime/cache/block_manager.h"

#include "tests/runtime/cache/block_sequences.h"
#include "tp/error.h"

#include <new>
#include <stdexcept>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::Blocks;
using test::run;
using test::table_of;
using test::Tokens;
using test::tokens_from;

TEST(BlockManager, CountsTheBlocksOfTokens) {
  const BlockManager manager(8, 4);
  EXPECT_EQ(manager.blocks_for(0), 0U);
  EXPECT_EQ(manager.blocks_for(1), 1U);
  EXPECT_EQ(manager.blocks_for(4), 1U);
  EXPECT_EQ(manager.blocks_for(5), 2U);
}

TEST(BlockManager, GivesOutTheBlocksThatASequenceLacks) {
  BlockManager manager(8, 4);
  EXPECT_EQ(manager.begin_sequence(1, tokens_from(0, 6)), 0U);
  Blocks new_blocks;
  EXPECT_TRUE(manager.try_reserve(1, 6, new_blocks));
  EXPECT_EQ(new_blocks, (Blocks{0, 1}));
  EXPECT_TRUE(manager.try_reserve(1, 8, new_blocks));  // still in the second block
  EXPECT_EQ(new_blocks.size(), 2U);
  EXPECT_TRUE(manager.try_reserve(1, 9, new_blocks));
  EXPECT_EQ(new_blocks, (Blocks{0, 1, 2}));
  EXPECT_EQ(table_of(manager, 1), new_blocks);
  EXPECT_EQ(manager.free_blocks(), 5U);
}

TEST(BlockManager, FindsOnlyBlocksOfTheSameSalt) {
  BlockManager manager(32, 4);
  EXPECT_EQ(run(manager, 1, tokens_from(0, 10)), 0U);
  EXPECT_EQ(run(manager, 2, tokens_from(0, 10), "a"), 0U);
  EXPECT_EQ(run(manager, 3, tokens_from(0, 10), "a"), 8U) << "while the other one runs";
  EXPECT_EQ(run(manager, 4, tokens_from(0, 10), "aa"), 0U);
  EXPECT_EQ(run(manager, 5, tokens_from(0, 10)), 8U);
  for (SequenceId id = 1; id <= 5; ++id) manager.end_sequence(id);
  EXPECT_EQ(run(manager, 6, tokens_from(0, 10), "a"), 8U) << "when it has ended";
  EXPECT_EQ(run(manager, 7, tokens_from(0, 10), "b"), 0U);
  manager.end_sequence(6);
  manager.end_sequence(7);
  manager.check_invariants();
}

// A salt can't be mistaken for tokens, and equal hashes are not trusted.
TEST(BlockManager, DoesNotMistakeASaltForTokensWhoseHashIsEqual) {
  BlockManager manager(32, 1, {std::nullopt},
                       [](std::uint64_t, std::span<const TokenId>) -> std::uint64_t { return 1; });
  EXPECT_EQ(run(manager, 1, {'a', 5, 6}), 0U);
  EXPECT_EQ(run(manager, 2, {5, 6}, "a"), 0U);
  EXPECT_EQ(run(manager, 3, {'a', 5, 6}, "a"), 0U);
  EXPECT_EQ(run(manager, 4, {5, 6}, "b"), 0U);
  EXPECT_EQ(run(manager, 5, {5, 6}, "a"), 1U);
}

bool memory_is_short = false;

TEST(BlockManager, DoesNotBeginASequenceWithoutMemory) {
  BlockManager manager(32, 4, {std::nullopt},
                       [](std::uint64_t preceding, std::span<const TokenId> tokens) -> std::uint64_t {
                         if (memory_is_short && tokens.size() == 4) throw std::bad_alloc();
                         return preceding + static_cast<std::uint64_t>(tokens.front());
                       });
  run(manager, 1, tokens_from(0, 10), "ab");
  memory_is_short = true;
  EXPECT_THROW(manager.begin_sequence(2, tokens_from(0, 10), "ab"), std::bad_alloc);
  EXPECT_THROW(manager.begin_sequence(3, tokens_from(0, 10), "cd"), std::bad_alloc);
  memory_is_short = false;
  manager.check_invariants();
  EXPECT_EQ(manager.begin_sequence(2, tokens_from(0, 10), "ab"), 8U);
  EXPECT_EQ(manager.begin_sequence(3, tokens_from(0, 10), "cd"), 0U);
  manager.check_invariants();
}

TEST(BlockManager, CountsTheBlocksThatAPromptStillNeeds) {
  BlockManager manager(32, 4, {std::nullopt, 6});
  manager.begin_sequence(1, tokens_from(0, 40));
  // 10 blocks, and for the window 5 tokens and a chunk of 8, which touch at most 4 blocks.
  EXPECT_EQ(manager.missing_blocks(1, 40, 8), 10U + 4);
  Blocks new_blocks;
  EXPECT_TRUE(manager.try_reserve(1, 8, new_blocks));
  EXPECT_EQ(manager.missing_blocks(1, 40, 8), 10U + 4 - 4);
  EXPECT_EQ(manager.missing_blocks(1, 8, 8), 0U);
}

TEST(BlockManager, ReservesAllOrNothing) {
  BlockManager manager(3, 4);
  manager.begin_sequence(1, tokens_from(0, 6));
  Blocks new_blocks;
  EXPECT_FALSE(manager.try_reserve(1, 13, new_blocks));
  EXPECT_TRUE(new_blocks.empty());
  EXPECT_EQ(manager.free_blocks(), 3U);
  EXPECT_TRUE(manager.try_reserve(1, 12, new_blocks));
  EXPECT_EQ(manager.free_blocks(), 0U);
}

TEST(BlockManager, SharesTheFullBlocksOfACommonBeginning) {
  BlockManager manager(16, 4);
  Tokens first = tokens_from(0, 11);
  Tokens second = tokens_from(0, 11);
  second[9] = 99;  // in the third block, which is not full anyway
  EXPECT_EQ(run(manager, 1, first), 0U);
  EXPECT_EQ(run(manager, 2, second), 8U);
  EXPECT_EQ(manager.table(1)[0], manager.table(2)[0]);
  EXPECT_EQ(manager.table(1)[1], manager.table(2)[1]);
  EXPECT_NE(manager.table(1)[2], manager.table(2)[2]);
  EXPECT_EQ(manager.free_blocks(), 12U);
}

TEST(BlockManager, SharesNothingAfterTheFirstDifference) {
  BlockManager manager(16, 4);
  Tokens second = tokens_from(0, 12);
  second[1] = 99;
  run(manager, 1, tokens_from(0, 12));
  EXPECT_EQ(run(manager, 2, second), 0U);  // although its second and third blocks have equal tokens
}

TEST(BlockManager, LeavesOneTokenToBeComputed) {
  BlockManager manager(16, 4);
  run(manager, 1, tokens_from(0, 8));
  EXPECT_EQ(manager.match_prefix(tokens_from(0, 8)).tokens, 4U);
  EXPECT_EQ(manager.match_prefix(tokens_from(0, 9)).tokens, 8U);
  EXPECT_EQ(manager.match_prefix(tokens_from(0, 4)).tokens, 0U);
  EXPECT_EQ(manager.match_prefix({}).tokens, 0U);
}

TEST(BlockManager, FindsOnlyComputedBlocks) {
  BlockManager manager(16, 4);
  const Tokens tokens = tokens_from(0, 20);
  manager.begin_sequence(1, tokens);
  Blocks new_blocks;
  ASSERT_TRUE(manager.try_reserve(1, 20, new_blocks));
  EXPECT_EQ(manager.match_prefix(tokens).tokens, 0U);
  manager.commit(1, tokens, 11);
  EXPECT_EQ(manager.match_prefix(tokens).tokens, 8U);
  manager.commit(1, tokens, 12);
  EXPECT_EQ(manager.match_prefix(tokens).tokens, 12U);
  manager.check_invariants();
}

TEST(BlockManager, RevivesTheBlocksOfEndedSequences) {
  BlockManager manager(16, 4);
  const Tokens tokens = tokens_from(0, 10);
  run(manager, 1, tokens);
  const Blocks table = table_of(manager, 1);
  manager.end_sequence(1);
  EXPECT_EQ(manager.free_blocks(), 16U);
  EXPECT_EQ(manager.match_prefix(tokens).free_blocks, 2U);
  EXPECT_EQ(manager.begin_sequence(2, tokens), 8U);
  EXPECT_EQ(table_of(manager, 2), (Blocks{table[0], table[1]}));
  EXPECT_EQ(manager.free_blocks(), 14U);
  EXPECT_EQ(manager.match_prefix(tokens).free_blocks, 0U);
  manager.check_invariants();
}

TEST(BlockManager, KeepsABlockUntilItsLastOwnerEnds) {
  BlockManager manager(4, 4);
  const Tokens tokens = tokens_from(0, 5);
  run(manager, 1, tokens);
  run(manager, 2, tokens);
  EXPECT_EQ(manager.free_blocks(), 1U);
  manager.end_sequence(1);
  EXPECT_EQ(manager.free_blocks(), 2U);
  manager.end_sequence(2);
  EXPECT_EQ(manager.free_blocks(), 4U);
  manager.check_invariants();
}

TEST(BlockManager, EvictsTheLeastRecentlyUsedAndOfOneSequenceItsEnd) {
  BlockManager manager(6, 4);
  const Tokens old = tokens_from(0, 13);      // three full blocks and a partial one
  const Tokens recent = tokens_from(100, 8);  // two full blocks
  run(manager, 1, old);
  run(manager, 2, recent);
  manager.end_sequence(1);
  manager.end_sequence(2);
  EXPECT_EQ(manager.match_prefix(old).free_blocks, 3U);
  EXPECT_EQ(manager.match_prefix(tokens_from(100, 9)).free_blocks, 2U);

  Blocks new_blocks;
  manager.begin_sequence(3, tokens_from(200, 1));
  manager.try_reserve(3, 4, new_blocks);  // the block with unknown contents
  EXPECT_EQ(manager.match_prefix(old).tokens, 12U);
  manager.try_reserve(3, 8, new_blocks);
  EXPECT_EQ(manager.match_prefix(old).tokens, 8U);
  manager.try_reserve(3, 16, new_blocks);
  EXPECT_EQ(manager.match_prefix(old).tokens, 0U);
  EXPECT_EQ(manager.match_prefix(tokens_from(100, 9)).tokens, 8U);
  manager.check_invariants();
}

TEST(BlockManager, TakesBlocksOfUnknownContentsFirst) {
  BlockManager manager(2, 4);
  run(manager, 1, tokens_from(0, 4));
  run(manager, 2, tokens_from(100, 3));  // not full, so no sequence can find it
  manager.end_sequence(1);
  manager.end_sequence(2);
  Blocks new_blocks;
  manager.begin_sequence(3, tokens_from(200, 4));
  ASSERT_TRUE(manager.try_reserve(3, 4, new_blocks));
  EXPECT_EQ(manager.match_prefix(tokens_from(0, 5)).tokens, 4U);
}

TEST(BlockManager, UseMakesABlockRecent) {
  BlockManager manager(2, 4);
  run(manager, 1, tokens_from(0, 4));
  run(manager, 2, tokens_from(100, 4));
  manager.end_sequence(1);
  manager.end_sequence(2);
  EXPECT_EQ(manager.begin_sequence(3, tokens_from(0, 5)), 4U);
  manager.end_sequence(3);
  Blocks new_blocks;
  manager.begin_sequence(4, tokens_from(200, 4));
  ASSERT_TRUE(manager.try_reserve(4, 4, new_blocks));
  EXPECT_EQ(manager.match_prefix(tokens_from(0, 5)).tokens, 4U);
  EXPECT_EQ(manager.match_prefix(tokens_from(100, 5)).tokens, 0U);
}

TEST(BlockManager, FindsTheContinuationOfAPrefixThatTwoComputedAtOnce) {
  BlockManager manager(16, 4);
  const Tokens tokens = tokens_from(0, 13);
  Blocks new_blocks;
  for (const SequenceId id : {1U, 2U}) {
    EXPECT_EQ(manager.begin_sequence(id, tokens), 0U);
    ASSERT_TRUE(manager.try_reserve(id, 13, new_blocks));
  }
  manager.commit(1, tokens, 8);
  manager.commit(2, tokens, 13);
  manager.check_invariants();
  const PrefixMatch match = manager.match_prefix(tokens);
  EXPECT_EQ(match.tables[0], (Blocks{manager.table(1)[0], manager.table(1)[1], manager.table(2)[2]}));
}

TEST(BlockManager, CollisionOfHashesMixesNothing) {
  BlockManager manager(16, 4, {std::nullopt},
                       [](std::uint64_t, std::span<const TokenId>) -> std::uint64_t { return 7; });
  run(manager, 1, tokens_from(0, 9));
  run(manager, 2, tokens_from(100, 9));
  EXPECT_EQ(manager.match_prefix(tokens_from(0, 9)).tables[0],
            (Blocks{manager.table(1)[0], manager.table(1)[1]}));
  EXPECT_EQ(manager.match_prefix(tokens_from(100, 9)).tables[0],
            (Blocks{manager.table(2)[0], manager.table(2)[1]}));
  // The second block of one text follows the first block of the other. Every hash and token is known, but not
  // their order.
  Tokens mixed = tokens_from(0, 4);
  const Tokens tail = tokens_from(104, 5);
  mixed.insert(mixed.end(), tail.begin(), tail.end());
  EXPECT_EQ(manager.match_prefix(mixed).tokens, 4U);
}

TEST(BlockManager, RefusesSizesThatCannotWork) {
  EXPECT_THROW(BlockManager(0, 16), ConfigError);
  EXPECT_THROW(BlockManager(16, 0), ConfigError);
  EXPECT_THROW(BlockManager(std::size_t{1} << 40, 16), ConfigError);
}

TEST(BlockManager, RefusesMisuse) {
  BlockManager manager(4, 4);
  const Tokens tokens = tokens_from(0, 8);
  run(manager, 1, tokens);
  Blocks new_blocks;
  EXPECT_THROW(manager.begin_sequence(1, tokens), std::logic_error);
  EXPECT_THROW(manager.end_sequence(2), std::logic_error);
  EXPECT_THROW(manager.try_reserve(2, 4, new_blocks), std::logic_error);
  EXPECT_THROW(manager.commit(1, tokens, 9), std::logic_error);               // more than its tokens
  EXPECT_THROW(manager.commit(1, tokens, 7), std::logic_error);               // fewer than before
  EXPECT_THROW(manager.commit(1, tokens_from(0, 12), 12), std::logic_error);  // more than its blocks
  manager.check_invariants();
}

}  // namespace
}  // namespace tp

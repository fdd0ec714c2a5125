// Small cases of cache decisions: what is shared, what is evicted, what is refused.
#include "runtime/engine/block_manager.h"

#include "tp/error.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include <gtest/gtest.h>

namespace tp {
namespace {

using Tokens = std::vector<TokenId>;
using Blocks = std::vector<BlockId>;

// count tokens: first, first + 1, ...
Tokens tokens_from(TokenId first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Blocks table_of(const BlockManager& manager, SequenceId id) {
  const auto table = manager.table(id);
  return {table.begin(), table.end()};
}

// Begins a sequence and computes all its tokens; returns how many were cached.
std::size_t run(BlockManager& manager, SequenceId id, const Tokens& tokens, const char* salt = "") {
  const std::size_t cached = manager.begin_sequence(id, tokens, salt);
  Blocks new_blocks;
  EXPECT_TRUE(manager.try_reserve(id, tokens.size(), new_blocks));
  manager.commit(id, tokens, tokens.size());
  manager.check_invariants();
  return cached;
}

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

// Neither can a salt be taken for tokens, nor are hashes trusted.
TEST(BlockManager, DoesNotMistakeASaltForTokensWhoseHashIsEqual) {
  BlockManager manager(32, 1, {std::nullopt},
                       [](std::uint64_t, std::span<const TokenId>) -> std::uint64_t { return 1; });
  EXPECT_EQ(run(manager, 1, {'a', 5, 6}), 0U);
  EXPECT_EQ(run(manager, 2, {5, 6}, "a"), 0U);
  EXPECT_EQ(run(manager, 3, {'a', 5, 6}, "a"), 0U);
  EXPECT_EQ(run(manager, 4, {5, 6}, "b"), 0U);
  EXPECT_EQ(run(manager, 5, {5, 6}, "a"), 1U);
}

TEST(BlockManager, CountsTheBlocksThatAPromptStillNeeds) {
  BlockManager manager(32, 4, {std::nullopt, 6});
  manager.begin_sequence(1, tokens_from(0, 40));
  // 10 blocks, and of the window 5 tokens and a chunk of 8, which are in 4 blocks at most.
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
  EXPECT_EQ(run(manager, 2, second), 0U);  // though its second and third blocks hold equal tokens
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
  EXPECT_EQ(manager.cached_blocks(), 2U);
  EXPECT_EQ(manager.match_prefix(tokens).free_blocks, 2U);
  EXPECT_EQ(manager.begin_sequence(2, tokens), 8U);
  EXPECT_EQ(table_of(manager, 2), (Blocks{table[0], table[1]}));
  EXPECT_EQ(manager.free_blocks(), 14U);
  EXPECT_EQ(manager.cached_blocks(), 0U);
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
  const Tokens old = tokens_from(0, 13);      // three full blocks and one that is not
  const Tokens recent = tokens_from(100, 8);  // two full blocks
  run(manager, 1, old);
  run(manager, 2, recent);
  manager.end_sequence(1);
  manager.end_sequence(2);
  EXPECT_EQ(manager.cached_blocks(), 5U);

  Blocks new_blocks;
  manager.begin_sequence(3, tokens_from(200, 1));
  manager.try_reserve(3, 4, new_blocks);  // the block of unknown contents
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
  run(manager, 2, tokens_from(100, 3));  // not full: nobody can find it
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
  // The second block of one after the first of the other: every hash and every token is known, the row is
  // not.
  Tokens mixed = tokens_from(0, 4);
  const Tokens tail = tokens_from(104, 5);
  mixed.insert(mixed.end(), tail.begin(), tail.end());
  EXPECT_EQ(manager.match_prefix(mixed).tokens, 4U);
}

// Tokens [0, 6) see what the first of them sees; the seventh, of a window of 6, does not see token 0.
TEST(BlockManager, GivesBackTheBlocksThatHaveLeftTheWindow) {
  BlockManager manager(16, 4, {6});
  Tokens tokens = tokens_from(0, 9);
  manager.begin_sequence(1, tokens);
  Blocks blocks;
  ASSERT_TRUE(manager.try_reserve(1, 9, blocks));
  manager.commit(1, tokens, 8);  // the next one, at 8, sees 3
  EXPECT_EQ(table_of(manager, 1), blocks);
  manager.commit(1, tokens, 9);  // the one at 9 sees 4
  EXPECT_EQ(table_of(manager, 1), (Blocks{kNoBlock, blocks[1], blocks[2]}));
  EXPECT_EQ(manager.free_blocks(), 14U);
  manager.check_invariants();
  // However long it becomes, it owns what the window needs.
  for (std::size_t length = 10; length <= 1000; ++length) {
    tokens.push_back(7);
    ASSERT_TRUE(manager.try_reserve(1, length, blocks));
    manager.commit(1, tokens, length);
    ASSERT_GE(manager.free_blocks(), 13U);
  }
  manager.end_sequence(1);
  EXPECT_EQ(manager.free_blocks(), 16U);
  manager.check_invariants();
}

TEST(BlockManager, GivesBackTheBlocksOfWindowedLayersAlone) {
  BlockManager manager(32, 4, {std::nullopt, 6, 10});
  run(manager, 1, tokens_from(0, 40));
  const auto behind = [&](std::size_t group) {
    return std::ranges::count(manager.table(1, group), kNoBlock);
  };
  EXPECT_EQ(behind(0), 0);
  EXPECT_EQ(behind(1), 8);  // the token at 40 sees 35
  EXPECT_EQ(behind(2), 7);  // and 31
  EXPECT_EQ(manager.free_blocks(), 32U - 10 - 2 - 3);
}

TEST(BlockManager, FindsABeginningOfWhichTheWindowsBlocksAreLeft) {
  BlockManager manager(20, 4, {std::nullopt, 6});
  const Tokens tokens = tokens_from(0, 33);
  run(manager, 1, tokens);  // 9 blocks of the first group, at the end 2 of the second
  manager.end_sequence(1);
  // Others take the blocks that went first: the window's, from the beginning on.
  Blocks taken;
  manager.begin_sequence(2, tokens_from(100, 1));
  ASSERT_TRUE(manager.try_reserve(2, 16, taken));
  EXPECT_EQ(taken.size(), 8U);
  const PrefixMatch match = manager.match_prefix(tokens);
  EXPECT_EQ(match.tokens, 32U);
  EXPECT_EQ(std::ranges::count(match.tables[0], kNoBlock), 0);
  EXPECT_EQ(std::ranges::count(match.tables[1], kNoBlock), 6);
  // A shorter beginning would need blocks of the window that are gone.
  EXPECT_EQ(manager.match_prefix(tokens_from(0, 13)).tokens, 0U);
  EXPECT_EQ(manager.begin_sequence(3, tokens), 32U);
  manager.check_invariants();
}

TEST(BlockManager, FindsWhatWasComputedAgainInsteadOfItsIdleDuplicate) {
  BlockManager manager(20, 4, {std::nullopt, 6});
  run(manager, 1, tokens_from(0, 33));
  manager.end_sequence(1);
  Blocks taken;
  manager.begin_sequence(2, tokens_from(100, 1));
  ASSERT_TRUE(manager.try_reserve(2, 16, taken));
  manager.end_sequence(2);
  const Tokens beginning = tokens_from(0, 13);
  ASSERT_EQ(run(manager, 3, beginning), 0U);  // without the window's blocks the others are of no use
  const Blocks computed = table_of(manager, 3);
  manager.end_sequence(3);
  manager.check_invariants();
  const PrefixMatch match = manager.match_prefix(beginning);
  EXPECT_EQ(match.tables[0], (Blocks{computed[0], computed[1], computed[2]}));
}

TEST(BlockManager, FindsWhatIsLeftOfATextWhoseBeginningNoBlockHolds) {
  BlockManager manager(4, 4, {6});
  Tokens tokens;
  manager.begin_sequence(1, tokens);
  Blocks blocks;
  for (std::size_t length = 1; length <= 41; ++length) {
    tokens.push_back(static_cast<TokenId>(length));
    ASSERT_TRUE(manager.try_reserve(1, length, blocks));
    manager.commit(1, tokens, length);
  }
  manager.end_sequence(1);
  EXPECT_EQ(manager.match_prefix(tokens).tokens, 40U);
  EXPECT_EQ(manager.match_prefix(tokens_from(1, 30)).tokens, 0U);
  EXPECT_EQ(manager.begin_sequence(2, tokens), 40U);
  manager.check_invariants();
}

TEST(BlockManager, ReservesForAllGroupsOrForNone) {
  BlockManager manager(5, 4, {std::nullopt, 6});
  manager.begin_sequence(1, tokens_from(0, 12));
  Blocks new_blocks;
  EXPECT_FALSE(manager.try_reserve(1, 12, new_blocks));
  EXPECT_EQ(manager.free_blocks(), 5U);
  EXPECT_TRUE(manager.try_reserve(1, 8, new_blocks));
  EXPECT_EQ(new_blocks, (Blocks{0, 1, 2, 3}));
  EXPECT_EQ(table_of(manager, 1), (Blocks{0, 1}));
  EXPECT_TRUE(std::ranges::equal(manager.table(1, 1), Blocks{2, 3}));
}

// Computes all of a sequence's tokens and keeps its state at some positions.
std::size_t run_recurrent(BlockManager& manager, SequenceId id, const Tokens& tokens,
                          const std::vector<std::size_t>& kept) {
  const std::size_t cached = manager.begin_sequence(id, tokens);
  EXPECT_EQ(manager.first_state(id) != kNoSlot, cached != 0);
  EXPECT_NE(manager.state(id), kNoSlot);
  Blocks new_blocks;
  EXPECT_TRUE(manager.try_reserve(id, tokens.size(), new_blocks));
  manager.take_saves(id, {.kept = kept});
  manager.check_invariants();
  manager.commit(id, tokens, tokens.size());
  manager.check_invariants();
  return cached;
}

TEST(BlockManager, FindsAPrefixOfARecurrentModelUpToAStateThatWasKept) {
  BlockManager manager(32, 4, {std::nullopt}, hash_of_block, 8);
  EXPECT_EQ(run_recurrent(manager, 1, tokens_from(0, 20), {8}), 0U);
  EXPECT_EQ(manager.match_prefix(tokens_from(0, 20)).tokens, 8U);
  EXPECT_EQ(manager.match_prefix(tokens_from(0, 8)).tokens, 0U) << "the last token is computed";
  EXPECT_EQ(run_recurrent(manager, 2, tokens_from(0, 20), {16}), 8U);
  EXPECT_EQ(manager.match_prefix(tokens_from(0, 20)).tokens, 16U);
  for (const SequenceId id : {1, 2}) manager.end_sequence(id);
  manager.check_invariants();
  EXPECT_EQ(run_recurrent(manager, 3, tokens_from(0, 20), {}), 16U);
}

TEST(BlockManager, EvictsTheStateThatWasUsedLeastRecently) {
  BlockManager manager(200, 4, {std::nullopt}, hash_of_block, 4);
  const auto kept = [&](TokenId first) { return manager.match_prefix(tokens_from(first, 12)).tokens != 0; };
  for (TokenId i = 0; i < 3; ++i) {
    run_recurrent(manager, 1, tokens_from(100 * i, 12), {8});
    manager.end_sequence(1);
  }
  EXPECT_TRUE(kept(0) && kept(100) && kept(200));
  run_recurrent(manager, 1, tokens_from(0, 12), {});  // the slot beside the snapshots, which is used again
  manager.end_sequence(1);
  run_recurrent(manager, 1, tokens_from(300, 12), {8});
  manager.end_sequence(1);
  EXPECT_TRUE(kept(0) && kept(200) && kept(300));
  EXPECT_FALSE(kept(100));
}

TEST(BlockManager, KeepsOneStateOfWhatTwoSequencesCompute) {
  BlockManager manager(32, 4, {std::nullopt}, hash_of_block, 8);
  const Tokens tokens = tokens_from(0, 12);
  for (const SequenceId id : {1, 2}) {
    Blocks new_blocks;
    manager.begin_sequence(id, tokens);
    EXPECT_TRUE(manager.try_reserve(id, tokens.size(), new_blocks));
    EXPECT_EQ(manager.take_saves(id, {.kept = {8}}).size(), 1U);
    EXPECT_TRUE(manager.awaits_save(id, 8));
  }
  for (const SequenceId id : {1, 2}) manager.commit(id, tokens, 12);
  EXPECT_FALSE(manager.awaits_save(1, 8));
  manager.check_invariants();
  manager.end_sequence(1);
  manager.end_sequence(2);
  EXPECT_EQ(manager.match_prefix(tokens).tokens, 8U);
}

TEST(BlockManager, KeepsStatesForSequencesWhenMoreCopiesAreWanted) {
  BlockManager manager(200, 1, {std::nullopt}, hash_of_block, 8);
  const Tokens tokens = tokens_from(0, 100);
  SnapshotPositions wanted{.kept = std::vector<std::size_t>(50)};
  std::iota(wanted.kept.begin(), wanted.kept.end(), 1);
  manager.begin_sequence(1, tokens);
  EXPECT_EQ(manager.take_saves(1, wanted).size(), 4U);
  manager.begin_sequence(2, tokens_from(500, 9));
  EXPECT_EQ(manager.take_saves(2, wanted).size(), 0U);
  manager.end_sequence(1);
  EXPECT_EQ(manager.take_saves(2, wanted).size(), 4U);
  manager.begin_unshared_sequence(3);
  EXPECT_EQ(manager.take_saves(3, wanted).size(), 0U) << "nobody would find them";
  manager.check_invariants();
}

TEST(BlockManager, KeepsTheLatestStateOfASequenceUnlessOthersHaveUsedIt) {
  BlockManager manager(64, 4, {std::nullopt}, hash_of_block, 8);
  const Tokens tokens = tokens_from(0, 40);
  const auto compute = [&](SequenceId id, std::size_t end) {
    Blocks new_blocks;
    EXPECT_TRUE(manager.try_reserve(id, end, new_blocks));
    EXPECT_EQ(manager.take_saves(id, {.latest = end}).size(), 1U);
    manager.commit(id, tokens, end);
    manager.check_invariants();
  };
  const auto found = [&](std::size_t beginning) {
    return manager.match_prefix(std::span(tokens).first(beginning)).tokens;
  };
  manager.begin_sequence(1, tokens);
  compute(1, 8);
  EXPECT_EQ(found(40), 8U);
  compute(1, 16);
  EXPECT_EQ(found(40), 16U);
  EXPECT_EQ(found(12), 0U) << "the later one has replaced it";
  EXPECT_EQ(manager.snapshots(), 1U);
  manager.begin_sequence(2, std::span(tokens).first(20));
  compute(1, 24);
  EXPECT_EQ(found(40), 24U);
  EXPECT_EQ(found(20), 16U) << "the other sequence has begun with it";
  EXPECT_EQ(manager.snapshots(), 2U);
  manager.end_sequence(1);
  manager.end_sequence(2);
  EXPECT_EQ(found(40), 24U) << "at the end of a sequence it stays";
  manager.check_invariants();
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

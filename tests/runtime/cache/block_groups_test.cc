// Cache decisions with window layers and recurrent layers.
#include "runtime/cache/block_manager.h"
#include "tests/runtime/cache/block_sequences.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::Blocks;
using test::run;
using test::table_of;
using test::Tokens;
using test::tokens_from;

// Tokens [0, 6) see what the first of them sees. The seventh token, with a window of 6, does not see token 0.
TEST(BlockGroups, GivesBackTheBlocksThatHaveLeftTheWindow) {
  BlockManager manager(16, 4, {6});
  Tokens tokens = tokens_from(0, 9);
  manager.begin_sequence(1, tokens);
  Blocks blocks;
  ASSERT_TRUE(manager.try_reserve(1, 9, blocks));
  manager.commit(1, tokens, 8);  // the next token, at 8, sees token 3
  EXPECT_EQ(table_of(manager, 1), blocks);
  manager.commit(1, tokens, 9);  // the token at 9 sees token 4
  EXPECT_EQ(table_of(manager, 1), (Blocks{kNoBlock, blocks[1], blocks[2]}));
  EXPECT_EQ(manager.free_blocks(), 14U);
  manager.check_invariants();
  // A sequence of any length owns only the window's blocks.
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

TEST(BlockGroups, FreesTheBlocksOfWindowedLayersSeparately) {
  BlockManager manager(32, 4, {std::nullopt, 6, 10});
  run(manager, 1, tokens_from(0, 40));
  const auto behind = [&](std::size_t group) {
    return std::ranges::count(manager.table(1, group), kNoBlock);
  };
  EXPECT_EQ(behind(0), 0);
  EXPECT_EQ(behind(1), 8);  // the token at 40 sees token 35
  EXPECT_EQ(behind(2), 7);  // and token 31
  EXPECT_EQ(manager.free_blocks(), 32U - 10 - 2 - 3);
}

TEST(BlockGroups, FindsABeginningWhoseWindowsBlocksAreStillCached) {
  BlockManager manager(20, 4, {std::nullopt, 6});
  const Tokens tokens = tokens_from(0, 33);
  run(manager, 1, tokens);  // 9 blocks of the first group, and finally 2 of the second
  manager.end_sequence(1);
  // Other sequences take the blocks that were freed first: the window's, from the beginning on.
  Blocks taken;
  manager.begin_sequence(2, tokens_from(100, 1));
  ASSERT_TRUE(manager.try_reserve(2, 16, taken));
  EXPECT_EQ(taken.size(), 8U);
  const PrefixMatch match = manager.match_prefix(tokens);
  EXPECT_EQ(match.tokens, 32U);
  EXPECT_EQ(std::ranges::count(match.tables[0], kNoBlock), 0);
  EXPECT_EQ(std::ranges::count(match.tables[1], kNoBlock), 6);
  // A shorter beginning would need freed blocks of the window.
  EXPECT_EQ(manager.match_prefix(tokens_from(0, 13)).tokens, 0U);
  EXPECT_EQ(manager.begin_sequence(3, tokens), 32U);
  manager.check_invariants();
}

TEST(BlockGroups, FindsARecomputedBlockInsteadOfItsIdleDuplicate) {
  BlockManager manager(20, 4, {std::nullopt, 6});
  run(manager, 1, tokens_from(0, 33));
  manager.end_sequence(1);
  Blocks taken;
  manager.begin_sequence(2, tokens_from(100, 1));
  ASSERT_TRUE(manager.try_reserve(2, 16, taken));
  manager.end_sequence(2);
  const Tokens beginning = tokens_from(0, 13);
  ASSERT_EQ(run(manager, 3, beginning), 0U);  // without the window's blocks, the other blocks are useless
  const Blocks computed = table_of(manager, 3);
  manager.end_sequence(3);
  manager.check_invariants();
  const PrefixMatch match = manager.match_prefix(beginning);
  EXPECT_EQ(match.tables[0], (Blocks{computed[0], computed[1], computed[2]}));
}

TEST(BlockGroups, FindsTheRestOfATextWhoseBeginningWasEvicted) {
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

TEST(BlockGroups, ReservesInAllGroupsOrNotAtAll) {
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

// Computes all of a sequence's tokens and saves its state at some positions.
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

TEST(BlockGroups, FindsAPrefixOfARecurrentModelUpToAStateThatWasKept) {
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

TEST(BlockGroups, EvictsTheStateThatWasUsedLeastRecently) {
  BlockManager manager(200, 4, {std::nullopt}, hash_of_block, 4);
  const auto kept = [&](TokenId first) { return manager.match_prefix(tokens_from(first, 12)).tokens != 0; };
  for (TokenId i = 0; i < 3; ++i) {
    run_recurrent(manager, 1, tokens_from(100 * i, 12), {8});
    manager.end_sequence(1);
  }
  EXPECT_TRUE(kept(0) && kept(100) && kept(200));
  run_recurrent(manager, 1, tokens_from(0, 12), {});  // the slot next to the snapshots, which is reused
  manager.end_sequence(1);
  run_recurrent(manager, 1, tokens_from(300, 12), {8});
  manager.end_sequence(1);
  EXPECT_TRUE(kept(0) && kept(200) && kept(300));
  EXPECT_FALSE(kept(100));
}

TEST(BlockGroups, KeepsOneStateForTwoEqualSequences) {
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

TEST(BlockGroups, KeepsStatesForSequencesWhenMoreCopiesAreWanted) {
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

TEST(BlockGroups, KeepsTheLatestStateOfASequenceIfOthersHaveNotUsedIt) {
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

}  // namespace
}  // namespace tp

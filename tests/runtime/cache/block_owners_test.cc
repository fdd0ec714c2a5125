// Ranks that share one copy of the cache own runs of its blocks.
#include "runtime/cache/block_manager.h"
#include "tests/runtime/cache/block_sequences.h"

#include <algorithm>
#include <random>
#include <utility>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::run;
using test::table_of;
using test::Tokens;
using test::tokens_from;

constexpr std::size_t kBlock = 4;

BlockManager manager_of(std::size_t blocks, BlockOwners owners, CacheWindows windows = {std::nullopt}) {
  return {blocks, kBlock, std::move(windows), hash_of_block, 0, owners};
}

std::vector<std::size_t> owners_of(const BlockManager& manager, SequenceId id, std::size_t owners) {
  std::vector<std::size_t> found;
  for (const BlockId block : table_of(manager, id))
    found.push_back(static_cast<std::size_t>(block) * owners / manager.num_blocks());
  return found;
}

TEST(BlockOwners, OwnTheSplitsOfASequenceInTurn) {
  BlockManager manager = manager_of(24, {3, 2});
  run(manager, 1, tokens_from(0, 10 * kBlock));
  EXPECT_EQ(owners_of(manager, 1, 3), (std::vector<std::size_t>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1}));
  run(manager, 2, tokens_from(1000, 3 * kBlock));
  EXPECT_EQ(owners_of(manager, 2, 3), (std::vector<std::size_t>{2, 2, 0}))
      << "the most free blocks come first";
}

TEST(BlockOwners, ContinueAReusedPrefixLikeTheEarlierSequence) {
  BlockManager manager = manager_of(24, {3, 2});
  const Tokens tokens = tokens_from(0, 8 * kBlock);
  run(manager, 1, tokens_from(500, kBlock));  // so that sequence 2 begins with a different owner
  run(manager, 2, Tokens(tokens.begin(), tokens.begin() + 3 * kBlock));
  EXPECT_EQ(run(manager, 3, tokens), 3 * kBlock);
  EXPECT_EQ(owners_of(manager, 3, 3), (std::vector<std::size_t>{1, 1, 2, 2, 0, 0, 1, 1}));
}

TEST(BlockOwners, LendBlocksToAnOwnerWithoutFreeBlocks) {
  BlockManager manager = manager_of(6, {3, 1});
  run(manager, 1, tokens_from(0, 3 * kBlock));
  run(manager, 2, tokens_from(1000, kBlock));
  manager.end_sequence(1);
  run(manager, 3, tokens_from(2000, 5 * kBlock));
  EXPECT_EQ(manager.free_blocks(), 0U);
}

TEST(BlockOwners, LendBlankBlocksBeforeCachedOnesAreEvicted) {
  BlockManager manager = manager_of(8, {2, 4});
  const Tokens tokens = tokens_from(0, 2 * kBlock + 1);
  run(manager, 1, tokens_from(0, 2 * kBlock));
  manager.end_sequence(1);
  run(manager, 2, tokens_from(1000, 6 * kBlock));
  EXPECT_EQ(owners_of(manager, 2, 2), (std::vector<std::size_t>{0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(manager.match_prefix(tokens, "").tokens, 2 * kBlock);
}

// 64 chats of different lengths begin and end concurrently in a pool of four owners.
TEST(BlockOwners, FillEvenlyWithManyShortChats) {
  constexpr std::size_t kOwners = 4;
  BlockManager manager = manager_of(4096, {kOwners, 16});
  std::mt19937 random(5);
  for (SequenceId id = 0; id < 64; ++id)
    run(manager, id, tokens_from(static_cast<TokenId>(id * 1000), 8 + random() % 250));
  for (SequenceId id = 0; id < 200; ++id) {
    manager.end_sequence(id);
    run(manager, id + 64, tokens_from(static_cast<TokenId>(id * 1000 + 64000), 8 + random() % 250));
  }
  std::vector<std::size_t> used(kOwners);  // blocks of each owner
  for (SequenceId id = 200; id < 264; ++id) {
    for (const std::size_t owner : owners_of(manager, id, kOwners)) ++used[owner];
  }
  const auto [min, max] = std::ranges::minmax(used);
  RecordProperty("min", static_cast<int>(min));
  RecordProperty("max", static_cast<int>(max));
  EXPECT_LE(max - min, min / 4);
  manager.check_invariants();
}

TEST(BlockOwners, MayBeMoreThanTheBlocks) {
  BlockManager manager = manager_of(3, {64, 16});
  run(manager, 1, tokens_from(0, 3 * kBlock));
  EXPECT_EQ(manager.free_blocks(), 0U);
}

}  // namespace
}  // namespace tp

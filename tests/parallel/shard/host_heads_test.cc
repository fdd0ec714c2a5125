#include "parallel/shard/host_heads.h"

#include "parallel/shard/shard.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr std::size_t kBlocks = 5040;

std::vector<Range> heads_read(std::size_t heads, std::size_t kv_heads, std::size_t ranks) {
  std::vector<Range> read;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    read.push_back(shard_heads(heads, kv_heads, {rank, ranks}).kv_heads);
  return read;
}

// Returns the largest part that some rank must have, in heads: a run of heads has only its readers' room.
double least_largest_part(const std::vector<Range>& read) {
  double min = 0.0;
  for (std::size_t begin = 0; begin < read.back().end; ++begin) {
    for (std::size_t end = begin + 1; end <= read.back().end; ++end) {
      const auto readers =
          std::ranges::count_if(read, [&](Range heads) { return heads.begin < end && begin < heads.end; });
      min = std::max(min, static_cast<double>(end - begin) / static_cast<double>(readers));
    }
  }
  return min;
}

TEST(HostHeads, GiveEachBlockOneOwnerAmongTheReadersOfItsHead) {
  for (const auto& [heads, kv_heads] : {std::pair{14U, 2U}, {8U, 1U}, {12U, 4U}, {32U, 8U}, {71U, 1U}}) {
    for (std::size_t ranks = 1; ranks <= heads; ++ranks) {
      const std::vector<Range> read = heads_read(heads, kv_heads, ranks);
      const HostHeads host(read, kBlocks);
      ASSERT_EQ(host.heads(), kv_heads);
      for (std::size_t head = 0; head < kv_heads; ++head) {
        std::size_t end = 0;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          const Range owned = host.owned_by(rank, head);
          if (owned.empty()) continue;
          ASSERT_TRUE(host.read_by(rank).contains(head))
              << heads << " heads, rank " << rank << " of " << ranks;
          ASSERT_EQ(owned.begin, end);
          end = owned.end;
        }
        ASSERT_EQ(end, kBlocks);
      }
    }
  }
}

TEST(HostHeads, GiveRanksPartsThatAreAsEqualAsTheReadersAllow) {
  for (const auto& [heads, kv_heads] : {std::pair{14U, 2U}, {8U, 1U}, {12U, 4U}, {32U, 8U}, {6U, 3U}}) {
    for (std::size_t ranks = 1; ranks <= heads; ++ranks) {
      const std::vector<Range> read = heads_read(heads, kv_heads, ranks);
      const HostHeads host(read, kBlocks);
      double largest = 0.0;
      for (std::size_t rank = 0; rank < ranks; ++rank) largest = std::max(largest, host.owned_heads(rank));
      EXPECT_NEAR(largest, least_largest_part(read), 1e-3) << heads << " heads on " << ranks << " ranks";
    }
  }
  EXPECT_NEAR(HostHeads(heads_read(14, 2, 4), kBlocks).owned_heads(1), 0.5, 1e-9);
}

// Three heads of two queries each on five ranks. Only the first rank reads the first head.
TEST(HostHeads, DivideTheOtherHeadsIfOneRankMustKeepAWholeHead) {
  const HostHeads host(heads_read(6, 3, 5), kBlocks);
  EXPECT_EQ(host.owned_heads(0), 1.0);
  for (std::size_t rank = 1; rank < 5; ++rank) EXPECT_EQ(host.owned_heads(rank), 0.5) << rank;
  EXPECT_EQ(host.owners_of(0), 1U);
  EXPECT_EQ(host.owners_of(2), 2U);
  EXPECT_TRUE(host.are_shared());
}

// Ranks 0, 2 and 4 of a job. The other ranks are on another host.
TEST(HostHeads, NumberOnlyTheHeadsThatTheHostReads) {
  const std::vector<Range> read = {{0, 1}, {1, 2}, {2, 3}};
  const std::vector<Range> gaps = {{0, 1}, {2, 4}, {5, 6}};
  EXPECT_FALSE(HostHeads(read, kBlocks).are_shared());
  const HostHeads host(gaps, kBlocks);
  EXPECT_EQ(host.heads(), 4U);
  EXPECT_EQ(host.read_by(1), (Range{1, 3}));
  EXPECT_EQ(host.read_by(2), (Range{3, 4}));
  EXPECT_EQ(host.owned_by(1, 2), (Range{0, kBlocks}));
  EXPECT_FALSE(host.are_shared());
}

TEST(HostHeads, AreMissingForLayersWithoutACache) {
  const HostHeads host(std::vector<Range>(3), kBlocks);
  EXPECT_EQ(host.heads(), 0U);
  EXPECT_FALSE(host.are_shared());
  EXPECT_EQ(host.owned_heads(1), 0.0);
}

}  // namespace
}  // namespace tp

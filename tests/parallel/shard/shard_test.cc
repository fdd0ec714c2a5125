#include "parallel/shard/shard.h"

#include "tests/error_of.h"
#include "tp/error.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

std::string error_of(std::size_t heads, std::size_t kv_heads, std::size_t ranks) {
  return test::error_or_none<ConfigError>([&] { shard_heads(heads, kv_heads, {0, ranks}); });
}

TEST(SplitEvenly, CoversEverythingOnceInOrder) {
  for (std::size_t total = 0; total <= 70; ++total) {
    for (std::size_t size = 1; size <= 9; ++size) {
      for (const std::size_t granule : {1U, 2U, 8U, 32U}) {
        std::size_t end = 0;
        for (std::size_t rank = 0; rank < size; ++rank) {
          const Range part = split_evenly(total, {rank, size}, granule);
          ASSERT_EQ(part.begin, end) << total << " in " << size << " by " << granule;
          ASSERT_LE(part.begin, part.end);
          end = part.end;
        }
        ASSERT_EQ(end, total) << total << " in " << size << " by " << granule;
      }
    }
  }
}

TEST(SplitEvenly, CutsAtWholeGranulesOnly) {
  for (std::size_t total = 0; total <= 70; ++total) {
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const Range part = split_evenly(total, {rank, 5}, 8);
      EXPECT_TRUE(part.end % 8 == 0 || part.end == total) << total << " rank " << rank;
    }
  }
}

TEST(SplitEvenly, GivesPartsThatDifferByAtMostAGranule) {
  for (std::size_t total = 0; total <= 300; ++total) {
    for (std::size_t size = 1; size <= 7; ++size) {
      for (const std::size_t granule : {1U, 4U, 16U}) {
        std::size_t smallest = total;
        std::size_t largest = 0;
        for (std::size_t rank = 0; rank < size; ++rank) {
          const Range part = split_evenly(total, {rank, size}, granule);
          // The last granule may be partial. The missing part counts.
          const bool is_cut = part.end == total && !part.empty() && total % granule != 0;
          const std::size_t whole = part.size() + (is_cut ? granule - total % granule : 0);
          smallest = std::min(smallest, whole);
          largest = std::max(largest, whole);
        }
        ASSERT_LE(largest, smallest + granule) << total << " in " << size << " by " << granule;
      }
    }
  }
}

TEST(SplitEvenly, GivesTheFirstPartsMore) {
  EXPECT_EQ(split_evenly(10, {0, 4}), (Range{0, 3}));
  EXPECT_EQ(split_evenly(10, {1, 4}), (Range{3, 6}));
  EXPECT_EQ(split_evenly(10, {2, 4}), (Range{6, 8}));
  EXPECT_EQ(split_evenly(10, {3, 4}), (Range{8, 10}));
}

TEST(SplitEvenly, LeavesTheLastPartsEmptyWhereThereAreTooFewGranules) {
  EXPECT_EQ(split_evenly(40, {0, 3}, 32), (Range{0, 32}));
  EXPECT_EQ(split_evenly(40, {1, 3}, 32), (Range{32, 40}));
  EXPECT_TRUE(split_evenly(40, {2, 3}, 32).empty());
}

TEST(ShardHeads, OwnEveryQueryHeadOnceAndDifferByAtMostOne) {
  for (std::size_t kv_heads = 1; kv_heads <= 8; ++kv_heads) {
    for (std::size_t group = 1; group <= 8; ++group) {
      const std::size_t heads = kv_heads * group;
      for (std::size_t size = 1; size <= heads; ++size) {
        std::size_t end = 0;
        for (std::size_t rank = 0; rank < size; ++rank) {
          const HeadShard shard = shard_heads(heads, kv_heads, {rank, size});
          ASSERT_EQ(shard.query_heads.begin, end);
          ASSERT_GE(shard.local_heads(), heads / size);
          ASSERT_LE(shard.local_heads(), heads / size + 1);
          end = shard.query_heads.end;
        }
        ASSERT_EQ(end, heads);
      }
    }
  }
}

TEST(ShardHeads, HoldExactlyTheKvHeadsThatTheirQueryHeadsRead) {
  for (std::size_t kv_heads = 1; kv_heads <= 6; ++kv_heads) {
    for (std::size_t group = 1; group <= 7; ++group) {
      const std::size_t heads = kv_heads * group;
      for (std::size_t size = 1; size <= heads; ++size) {
        for (std::size_t rank = 0; rank < size; ++rank) {
          const HeadShard shard = shard_heads(heads, kv_heads, {rank, size});
          std::size_t first = kv_heads;
          std::size_t last = 0;
          for (std::size_t local = 0; local < shard.local_heads(); ++local) {
            const std::size_t read = (shard.query_heads.begin + local) / group;  // in the whole model
            ASSERT_EQ(shard.kv_heads.begin + shard.local_kv_of(local), read);
            first = std::min(first, read);
            last = std::max(last, read);
          }
          ASSERT_EQ(shard.kv_heads, (Range{first, last + 1})) << heads << "/" << kv_heads << " on " << size;
        }
      }
    }
  }
}

TEST(ShardHeads, GiveEveryKvHeadOneOwnerWhoHoldsIt) {
  for (std::size_t kv_heads = 1; kv_heads <= 6; ++kv_heads) {
    for (std::size_t group = 1; group <= 7; ++group) {
      const std::size_t heads = kv_heads * group;
      for (std::size_t size = 1; size <= heads; ++size) {
        std::size_t next = 0;
        for (std::size_t rank = 0; rank < size; ++rank) {
          const HeadShard shard = shard_heads(heads, kv_heads, {rank, size});
          const Range owned = shard.owned_kv_heads();
          ASSERT_EQ(owned.begin, next) << heads << "/" << kv_heads << " on " << size;
          ASSERT_GE(owned.begin, shard.kv_heads.begin);
          ASSERT_LE(owned.end, shard.kv_heads.end);
          next = owned.end;
        }
        ASSERT_EQ(next, kv_heads);
      }
    }
  }
}

TEST(ShardHeads, AreWholeGroupsIfTheRanksDivideTheKvHeads) {
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const HeadShard shard = shard_heads(32, 8, {rank, 4});
    EXPECT_EQ(shard.query_heads, (Range{8 * rank, 8 * rank + 8}));
    EXPECT_EQ(shard.kv_heads, (Range{2 * rank, 2 * rank + 2}));
  }
}

TEST(ShardHeads, ShareAKvHeadAmongTheRanksThatNeedIt) {
  // 12 query heads in groups of 4 on 8 ranks: 2 2 2 2 1 1 1 1.
  EXPECT_EQ(shard_heads(12, 3, {1, 8}).kv_heads, (Range{0, 1}));
  EXPECT_EQ(shard_heads(12, 3, {2, 8}).kv_heads, (Range{1, 2}));
  EXPECT_EQ(shard_heads(12, 3, {7, 8}).kv_heads, (Range{2, 3}));
  // A rank in the middle of two groups holds both: heads 3 to 5 of 6 in groups of 2.
  EXPECT_EQ(shard_heads(6, 3, {1, 2}).kv_heads, (Range{1, 3}));
}

TEST(ShardHeads, RefuseMoreRanksThanHeads) {
  EXPECT_EQ(
      error_of(6, 2, 8),
      "cannot divide the model over 8 ranks: it has 6 attention heads, so at most 6 ranks can each own one "
      "(mpirun -np 6)");
  EXPECT_EQ(error_of(6, 2, 6), "no error");
}

TEST(ShardHeads, RejectHeadsThatAreNotAMultipleOfTheKvHeads) {
  const std::string text =
      "num_attention_heads must be a multiple of num_key_value_heads, found 7 and 2; check config.json";
  EXPECT_EQ(error_of(7, 2, 1), text);
  EXPECT_NE(error_of(7, 0, 1), "no error");
}

TEST(ShardColumns, CoverEverythingOnceForEverySizeAndRankCount) {
  for (std::size_t total = 1; total <= 700; ++total) {
    for (std::size_t size = 1; size <= 9; ++size) {
      std::size_t end = 0;
      for (std::size_t rank = 0; rank < size; ++rank) {
        const Range part = shard_columns(total, {rank, size});
        ASSERT_EQ(part.begin, end) << total << " on " << size;
        end = part.end;
      }
      ASSERT_EQ(end, total) << total << " on " << size;
    }
  }
}

TEST(ShardColumns, AreWholeTilesIfManyAndFairIfFew) {
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(shard_columns(14336, {rank, 4}).end % 32, 0U);
    EXPECT_EQ(shard_columns(14336, {rank, 4}).size(), 3584U);
  }
  // At most an eighth above the mean, and every rank has a part.
  for (std::size_t total = 8; total <= 2000; ++total) {
    for (std::size_t size = 1; size <= 8; ++size) {
      for (std::size_t rank = 0; rank < size; ++rank) {
        const double mean = static_cast<double>(total) / static_cast<double>(size);
        const auto found = static_cast<double>(shard_columns(total, {rank, size}).size());
        ASSERT_LE(found, std::max(mean * 1.125, mean + 1)) << total << " on " << size << " rank " << rank;
        ASSERT_GT(found, 0) << total << " on " << size << " rank " << rank;
      }
    }
  }
}

TEST(SplitByWeights, FollowsTheWeightsInWholeGranules) {
  const std::vector<double> split = {2, 1, 1};
  const auto part = [&](std::size_t total, std::size_t rank, std::size_t granule = 1) {
    return split_by_weights(total, {rank, 3, split}, granule);
  };
  EXPECT_EQ(part(32, 0), (Range{0, 16}));
  EXPECT_EQ(part(32, 1), (Range{16, 24}));
  EXPECT_EQ(part(32, 2), (Range{24, 32}));
  EXPECT_EQ(part(100, 0, 32), (Range{0, 64}));
  EXPECT_EQ(part(100, 1, 32), (Range{64, 96}));
  EXPECT_EQ(part(100, 2, 32), (Range{96, 100}));
}

TEST(SplitByWeights, CoversEverythingOnceAndGivesEveryRankSomething) {
  const std::vector<std::vector<double>> splits = {{1, 1}, {1000, 1}, {1, 1000, 1}, {0.3, 0.1, 0.2, 7, 1}};
  for (const std::vector<double>& split : splits) {
    for (std::size_t total = 0; total <= 70; ++total) {
      for (const std::size_t granule : {1U, 8U, 32U}) {
        std::size_t end = 0;
        for (std::size_t rank = 0; rank < split.size(); ++rank) {
          const Range part = split_by_weights(total, {rank, split.size(), split}, granule);
          ASSERT_EQ(part.begin, end) << total << " rank " << rank;
          ASSERT_LE(part.begin, part.end);
          if (rank == 0 && total != 0) {
            ASSERT_FALSE(part.empty()) << total;
          }
          if ((total + granule - 1) / granule >= split.size()) {
            ASSERT_FALSE(part.empty()) << total << " " << rank;
          }
          end = part.end;
        }
        ASSERT_EQ(end, total);
      }
    }
  }
}

TEST(SplitByWeights, IsEvenWithoutWeights) {
  for (std::size_t total = 0; total <= 70; ++total)
    EXPECT_EQ(split_by_weights(total, {1, 3}, 8), split_evenly(total, {1, 3}, 8));
}

TEST(ShardHeads, OverlapIfWeightedRanksShareAKvHead) {
  const std::vector<double> split = {3, 1};
  const HeadShard first = shard_heads(8, 2, {0, 2, split});
  const HeadShard second = shard_heads(8, 2, {1, 2, split});
  EXPECT_EQ(first.query_heads, (Range{0, 6}));
  EXPECT_EQ(first.kv_heads, (Range{0, 2}));
  EXPECT_EQ(second.query_heads, (Range{6, 8}));
  EXPECT_EQ(second.kv_heads, (Range{1, 2}));
}

}  // namespace
}  // namespace tp

#include "parallel/exchange/host_region.h"

#include "parallel/exchange/collectives.h"
#include "tests/expect_contains.h"
#include "tests/mpi_test.h"
#include "tp/error.h"

#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

std::vector<std::size_t> all_ranks(const Communicator& comm) {
  std::vector<std::size_t> ranks(comm.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::unique_ptr<HostRegion> region_of(Communicator& comm, std::span<const std::size_t> ranks,
                                      std::size_t bytes) {
  std::string why;
  std::unique_ptr<HostRegion> region = HostRegion::create(comm, ranks, bytes, why);
  EXPECT_EQ(why, "");
  return region;
}

TEST(HostRegion, CanBeSharedByTheRanksOfThisMachine) {
  std::string why;
  EXPECT_TRUE(HostRegion::can_share(test::world(), why)) << why;
}

// In each round, every rank reads what all ranks have just written.
TEST(HostRegion, ShowsEachRankWhatTheOthersWroteBeforeTheyMet) {
  Communicator& comm = test::world();
  const auto region = region_of(comm, all_ranks(comm), comm.size() * 2 * sizeof(int));
  auto* const values = reinterpret_cast<int*>(region->data());
  for (std::size_t i = 0; i < 2 * comm.size(); ++i) ASSERT_EQ(values[i], 0);
  region->synchronize();
  for (int round = 1; round <= 200; ++round) {
    int* const own = values + (round % 2) * static_cast<int>(comm.size());
    own[comm.rank()] = round;
    region->synchronize();
    for (std::size_t rank = 0; rank < comm.size(); ++rank) ASSERT_EQ(own[rank], round) << rank;
  }
}

// With two imitated hosts, ranks see only the writes on their own host.
TEST(HostRegion, BelongsToTheRanksThatCreatedIt) {
  Communicator& comm = test::world();
  const std::size_t half = (comm.size() + 1) / 2;
  std::vector<std::size_t> own;
  for (const std::size_t rank : all_ranks(comm)) {
    if ((rank < half) == (comm.rank() < half)) own.push_back(rank);
  }
  const auto region = region_of(comm, own, sizeof(int));
  auto* const value = reinterpret_cast<int*>(region->data());
  if (comm.rank() == own.front()) *value = comm.rank() < half ? 1 : 2;
  region->synchronize();
  EXPECT_EQ(*value, comm.rank() < half ? 1 : 2);
}

// Only written pages need memory, so a region may be larger than /dev/shm and the memory.
TEST(HostRegion, MayBeLargerThanTheMemory) {
  Communicator& comm = test::world();
  constexpr std::size_t kBytes = std::size_t{1} << 40;
  const auto region = region_of(comm, all_ranks(comm), kBytes);
  std::byte* const last = region->data() + kBytes - comm.size();
  last[comm.rank()] = std::byte{7};
  region->synchronize();
  for (std::size_t rank = 0; rank < comm.size(); ++rank) EXPECT_EQ(last[rank], std::byte{7});
}

// A busy machine makes any rank late, so it may take several tries.
TEST(HostRegion, NamesTheRankThatOthersWaitForLong) {
  Communicator& world = test::world();
  if (world.size() == 1) GTEST_SKIP() << "one rank";
  std::vector<std::string> messages;
  Communicator comm(
      world.handle(),
      {.on_long_wait = [&](const std::string& text) { messages.push_back(text); }, .patience = 0.3});
  const auto region = region_of(comm, all_ranks(comm), 1);
  const std::size_t late = comm.size() - 1;
  const std::string text = fmt::format("in an exchange within the host for rank {} (process ", late);
  bool named = false;
  for (int attempt = 0; attempt < 10 && !named; ++attempt) {
    barrier(comm);
    messages.clear();
    if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(800));
    region->synchronize();
    const bool as_expected = comm.is_root()
                                 ? messages.size() == 1 && messages.front().find(text) != std::string::npos
                                 : messages.empty();
    named = max_over_ranks(comm, as_expected ? 0 : 1) == 0;
  }
  EXPECT_TRUE(named) << fmt::format("{}", fmt::join(messages, "\n"));
}

// If a rank never comes, the other ranks stop waiting and name it.
TEST(HostRegion, EndsAWaitAfterItsTimeout) {
  Communicator& world = test::world();
  if (world.size() == 1) GTEST_SKIP() << "one rank";
  Communicator comm(world.handle(), {.patience = 0.1, .timeout = 0.3});
  const auto region = region_of(comm, all_ranks(comm), 1);
  std::string error;
  if (comm.rank() != 0) {
    try {
      region->synchronize();
    } catch (const CommError& ended) {
      error = ended.what();
    }
  }
  // The other ranks leave one after the other, and the first gives the reason.
  if (comm.rank() == 1) {
    EXPECT_CONTAINS(error, "rank 0 (process ");
  }
  barrier(world);
}

// Huge pages keep the contents, even for ranks that read small pages before.
TEST(HostRegion, KeepsItsContentsInHugePages) {
  Communicator& comm = test::world();
  constexpr std::size_t kBytes = std::size_t{5} << 20;  // the last page is cut short
  const auto region = region_of(comm, all_ranks(comm), kBytes);
  for (std::size_t i = comm.rank(); i < kBytes; i += 4096 * comm.size())
    region->data()[i] = static_cast<std::byte>(i % 251);
  region->synchronize();
  region->use_huge_pages(region->data() + 4096 * comm.rank(), kBytes - 4096 * comm.rank());
  region->synchronize();
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    for (std::size_t i = rank; i < kBytes; i += 4096 * comm.size())
      ASSERT_EQ(region->data()[i], static_cast<std::byte>(i % 251)) << i;
  }
}

TEST(HostRegion, CountsAMeetingAsAnExchange) {
  Communicator& comm = test::world();
  const auto region = region_of(comm, all_ranks(comm), 1);
  comm.stats() = CommStats{};
  region->synchronize();
  EXPECT_EQ(comm.stats().exchange.calls, 1U);
}

}  // namespace
}  // namespace tp

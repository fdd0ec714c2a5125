#include "parallel/shared_sum.h"

#include "parallel/collectives.h"
#include "tests/mpi_test.h"
#include "tests/reference/random.h"

#include <chrono>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

namespace tp {
namespace {

// Sizes around those at which the way changes: a run of 64, work shared by ranks, one piece and several.
constexpr std::size_t kSizes[] = {0, 1, 63, 64, 65, 1000, 8191, 8192, 8193, 65535, 65536, 65537, 200000};

std::vector<float> addend_of(std::size_t rank, std::size_t call, std::size_t size) {
  reference::Random random(1000 * call + rank);
  return random.numbers(size);
}

TEST(SharedSum, IsThereIfAndOnlyIfSeveralRanksShareTheHost) {
  Communicator& comm = test::world();
  EXPECT_EQ(SharedSum::create(comm.handle()) != nullptr, comm.size() > 1);
}

TEST(SharedSum, AddsUpInTheOrderOfTheRanksWithTheSameBitsEverywhere) {
  Communicator& comm = test::world();
  const auto shared = SharedSum::create(comm.handle());
  if (shared == nullptr) GTEST_SKIP() << "one rank";
  for (const std::size_t size : kSizes) {
    std::vector<float> expected = addend_of(0, size, size);
    for (std::size_t rank = 1; rank < comm.size(); ++rank) {
      const std::vector<float> addend = addend_of(rank, size, size);
      for (std::size_t i = 0; i < size; ++i) expected[i] += addend[i];
    }
    std::vector<float> sum = addend_of(comm.rank(), size, size);
    const std::vector<float> own = sum;
    shared->all_reduce(sum);
    EXPECT_EQ(sum, expected) << size;

    std::vector<float> onto = addend_of(99, size, size);
    for (std::size_t i = 0; i < size; ++i) expected[i] += onto[i];
    sum = own;
    shared->all_reduce(sum, onto.data());
    EXPECT_EQ(onto, expected) << size;
    EXPECT_EQ(sum, own) << size;
  }
}

// As if ranks were on several hosts, of equal and of different sizes, in turn or one after the other.
TEST(SharedSum, OverSeveralHostsIsTheSameSumOnEveryRank) {
  Communicator& comm = test::world();
  const auto rank = static_cast<int>(comm.rank());
  for (const int host : {rank / 2, rank % 2, rank == 0 ? 1 : 0, rank < 3 ? 0 : 1}) {
    const auto shared = SharedSum::create(comm.handle(), host);
    if (shared == nullptr) continue;  // no host has two
    reference::Random random(static_cast<std::uint64_t>(7));
    for (std::size_t call = 0; call < 200; ++call) {
      const std::size_t size = call < std::size(kSizes) ? kSizes[call] : random.integer(1, 3000);
      const std::size_t late = random.integer(0, 3 * comm.size());
      if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::microseconds(200));
      // Whole numbers, so that sums are exact in any order.
      const auto value = [&](std::size_t r, std::size_t i) {
        return static_cast<float>((call + i * (r + 1)) % 512);
      };
      std::vector<float> data(size);
      std::vector<float> expected(size, 0.0F);
      for (std::size_t i = 0; i < size; ++i) {
        data[i] = value(comm.rank(), i);
        for (std::size_t r = 0; r < comm.size(); ++r) expected[i] += value(r, i);
      }
      std::vector<float> onto(size, 1.0F);
      shared->all_reduce(data, onto.data());
      for (float& each : onto) each -= 1.0F;
      ASSERT_EQ(onto, expected) << "call " << call;
      shared->all_reduce(data);
      ASSERT_EQ(data, expected) << "call " << call;
    }
  }
}

TEST(SharedSum, IsNotThereIfNoHostHasTwoRanks) {
  Communicator& comm = test::world();
  EXPECT_EQ(SharedSum::create(comm.handle(), static_cast<int>(comm.rank())), nullptr);
}

// Calls follow each other at once, in random sizes, and a rank that changes from call to call comes late: a
// buffer that is filled again too early gives a wrong sum.
TEST(SharedSum, KeepsCallsInARowApart) {
  Communicator& comm = test::world();
  const auto shared = SharedSum::create(comm.handle());
  if (shared == nullptr) GTEST_SKIP() << "one rank";
  reference::Random random(1);
  int wrong_calls = 0;  // every rank must make all calls, whatever it finds
  for (std::size_t call = 0; call < 400; ++call) {
    const std::size_t size = random.integer(0, 9) == 0 ? random.integer(1, 150000) : random.integer(1, 500);
    const std::size_t late = random.integer(0, 3 * comm.size());
    if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::microseconds(200));
    const auto value = [&](std::size_t rank) { return static_cast<float>(call * 16 + rank); };
    float expected = 0.0F;
    for (std::size_t rank = 0; rank < comm.size(); ++rank) expected += value(rank);
    std::vector<float> data(size, value(comm.rank()));
    shared->all_reduce(data);
    wrong_calls += data == std::vector<float>(size, expected) ? 0 : 1;
  }
  EXPECT_EQ(wrong_calls, 0);
}

TEST(SharedSum, IsChosenAlikeOnEveryRank) {
  Communicator& comm = test::world();
  const auto shared = SharedSum::create(comm.handle());
  if (shared == nullptr) GTEST_SKIP() << "one rank";
  shared->measure();
  for (const std::size_t size : kSizes) {
    const std::int64_t chosen = shared->is_worthwhile(size) ? 1 : 0;
    EXPECT_EQ(max_over_ranks(comm, chosen), chosen) << size;
    EXPECT_EQ(max_over_ranks(comm, -chosen), -chosen) << size;
  }
}

}  // namespace
}  // namespace tp

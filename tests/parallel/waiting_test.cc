#include "parallel/collectives.h"
#include "tests/mpi_test.h"

#include <chrono>
#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

namespace tp {
namespace {

// Whether rank `slow`, which comes late to every all-reduce, waited for less than half of its own delays and
// every other rank for more. Collective; the answer is the same on every rank.
bool slow_rank_is_found(Communicator& comm, std::size_t slow) {
  constexpr int kCalls = 4;
  constexpr double kLate = 0.05;  // seconds a call
  comm.stats() = CommStats{};
  barrier(comm);
  for (int call = 0; call < kCalls; ++call) {
    if (comm.rank() == slow) std::this_thread::sleep_for(std::chrono::duration<double>(kLate));
    float one = 1.0F;
    all_reduce(comm, PartialSum(TensorView<float>(&one, 1, 1)));
  }
  const double waited = waiting_seconds(comm);
  EXPECT_GE(waited, 0.0);
  EXPECT_LE(waited, comm.stats().all_reduce.seconds + 1e-3);
  const bool waited_long = waited > kCalls * kLate / 2;
  const bool as_expected = waited_long == (comm.rank() != slow);
  return max_over_ranks(comm, as_expected ? 0 : 1) == 0;
}

// A rank that comes late to every all-reduce waits for nobody; the others wait for it. A busy machine makes
// any rank late, so it may take several tries.
TEST(WaitingSeconds, AreTheTimeSpentForTheSlowRank) {
  Communicator& comm = test::world();
  for (std::size_t slow = 0; slow < comm.size(); ++slow) {
    bool found = false;
    for (int attempt = 0; attempt < 10 && !found; ++attempt) found = slow_rank_is_found(comm, slow);
    EXPECT_TRUE(found) << "rank " << slow << " was slow";
  }
}

// Whatever the rank that comes last spends is the exchange itself.
TEST(WaitingSeconds, OfACallAreZeroOnTheRankThatCameLast) {
  Communicator& comm = test::world();
  comm.stats() = CommStats{};
  float one = 1.0F;
  all_reduce(comm, PartialSum(TensorView<float>(&one, 1, 1)));
  const bool was_last = waiting_seconds(comm) == 0.0;
  EXPECT_EQ(max_over_ranks(comm, was_last ? 1 : 0), 1);
}

TEST(WaitingSeconds, CountEveryCallOnce) {
  Communicator& comm = test::world();
  comm.stats() = CommStats{};
  EXPECT_EQ(waiting_seconds(comm), 0.0);
  float one = 1.0F;
  all_reduce(comm, PartialSum(TensorView<float>(&one, 1, 1)));
  const double once = waiting_seconds(comm);
  EXPECT_EQ(waiting_seconds(comm), once);
}

}  // namespace
}  // namespace tp

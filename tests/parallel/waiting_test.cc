#include "parallel/collectives.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace tp {
namespace {

// A rank that comes late to every all-reduce waits for nobody; the others wait for it.
TEST(WaitingSeconds, AreTheTimeSpentForTheSlowRank) {
  Communicator comm(MPI_COMM_WORLD);
  constexpr int kCalls = 5;
  constexpr double kLate = 0.04;  // seconds a call: far above what a busy machine adds
  for (std::size_t slow = 0; slow < comm.size(); ++slow) {
    comm.stats() = CommStats{};
    comm.stats().keep_all_reduce_seconds = true;
    barrier(comm);
    for (int call = 0; call < kCalls; ++call) {
      if (comm.rank() == slow) std::this_thread::sleep_for(std::chrono::duration<double>(kLate));
      float one = 1.0F;
      all_reduce(comm, PartialSum(TensorView<float>(&one, 1, 1)));
    }
    const double waited = waiting_seconds(comm);
    EXPECT_EQ(comm.stats().all_reduce_seconds.size(), static_cast<std::size_t>(kCalls));
    EXPECT_GE(waited, 0.0);
    EXPECT_LE(waited, comm.stats().all_reduce.seconds + 1e-3);
    if (comm.rank() == slow) {
      EXPECT_LT(waited, kCalls * kLate / 2) << "rank " << slow << " was slow";
    } else {
      EXPECT_GT(waited, kCalls * kLate / 2) << "rank " << slow << " was slow";
    }
  }
}

TEST(WaitingSeconds, AreZeroWhereNothingWasKept) {
  Communicator comm(MPI_COMM_WORLD);
  float one = 1.0F;
  all_reduce(comm, PartialSum(TensorView<float>(&one, 1, 1)));
  EXPECT_EQ(waiting_seconds(comm), 0.0);
}

}  // namespace
}  // namespace tp

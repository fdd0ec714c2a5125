// Ranks that are suspended, together or alone, for longer than the timeout.
#include "tests/launch/process.h"

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

using namespace std::chrono_literals;

// Slurm and `docker pause` suspend all ranks, here for longer than the timeout.
class SuspendedRanks : public testing::TestWithParam<const char*> {};

TEST_P(SuspendedRanks, GoOnAfterAPauseThatIsLongerThanTheTimeout) {
  Process process({"env", fmt::format("TP_ALL_REDUCE={}", GetParam()), TP_MPIRUN_PROGRAM, "--oversubscribe",
                   "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-np", "2", TP_RANK_PROBE,
                   "exchange", "12", "3"});
  ASSERT_TRUE(process.wait_for_output([](const std::string& out) { return !out.empty(); }));
  std::this_thread::sleep_for(1s);
  const std::vector<pid_t> ranks = {process.rank(0), process.rank(1)};
  for (const pid_t rank : ranks) ASSERT_EQ(::kill(rank, SIGSTOP), 0);
  std::this_thread::sleep_for(6s);
  for (const pid_t rank : ranks) ASSERT_EQ(::kill(rank, SIGCONT), 0);
  const Finished finished = process.finish(60);
  EXPECT_EQ(finished.status, 0);
  EXPECT_NE(finished.out.find("done"), std::string::npos) << finished.out;
  EXPECT_EQ(finished.err, "");
}

INSTANTIATE_TEST_SUITE_P(OfTwo, SuspendedRanks, testing::Values("shared", "messages"));

TEST(StoppedRank, StillEndsTheOthersAfterTheTimeout) {
  Process process({TP_MPIRUN_PROGRAM, "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle",
                   "1", "-np", "2", TP_RANK_PROBE, "exchange", "60", "3"});
  ASSERT_TRUE(process.wait_for_output([](const std::string& out) { return !out.empty(); }));
  ASSERT_EQ(::kill(process.rank(1), SIGSTOP), 0);
  const Finished finished = process.finish(60);
  EXPECT_NE(finished.status, 0);
  EXPECT_NE(finished.err.find("for rank 1 (process "), std::string::npos) << finished.err;
}

// The watchdog of MPI_Init begins again, too.
TEST(SuspendedStart, HasTheWholeTimeoutAfterAPause) {
  Process process({TP_MPIRUN_PROGRAM, "--oversubscribe", "-np", "1", TP_RANK_PROBE, "exchange", "1", "8", ":",
                   "-np", "1", "sleep", "60"});
  ASSERT_TRUE(process.wait_for_message("waited 2 s for the other ranks to start"));
  const pid_t rank = process.rank(0);
  ASSERT_EQ(::kill(rank, SIGSTOP), 0);
  std::this_thread::sleep_for(9s);
  ASSERT_EQ(::kill(rank, SIGCONT), 0);
  EXPECT_FALSE(process.wait_for_message("timeout: ", 3));
  EXPECT_TRUE(process.wait_for_message("timeout: ", 30));
  EXPECT_NE(process.finish().status, 0);
}

}  // namespace
}  // namespace tp::test

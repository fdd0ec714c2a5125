// Ranks that are suspended, together or alone, for longer than the timeout.
#include "tests/expect_contains.h"
#include "tests/launch/process.h"

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using namespace std::chrono_literals;

// Runs two ranks with a timeout of 3 s. Omits --oversubscribe and mpi_yield_when_idle, because a wait that
// yields on a busy machine reads the clock late.
std::vector<std::string> two_ranks(const std::string& seconds) {
  return {TP_MPIRUN_PROGRAM, "-H",       "localhost:2", "--bind-to", "none", "-np", "2",
          TP_RANK_PROBE,     "exchange", seconds,       "3"};
}

// Slurm and `docker pause` suspend all ranks, in this test for longer than the timeout.
TEST(SuspendedRanks, GoOnAfterAPauseThatIsLongerThanTheTimeout) {
  Process process(two_ranks("12"));
  ASSERT_TRUE(process.wait_for_output([](const std::string& out) { return !out.empty(); }));
  std::this_thread::sleep_for(1s);
  const std::vector<pid_t> ranks = {process.rank(0), process.rank(1)};
  for (const pid_t rank : ranks) ASSERT_EQ(::kill(rank, SIGSTOP), 0);
  std::this_thread::sleep_for(6s);
  for (const pid_t rank : ranks) ASSERT_EQ(::kill(rank, SIGCONT), 0);
  const Finished finished = process.finish(60);
  EXPECT_EQ(finished.status, 0);
  EXPECT_CONTAINS(finished.out, "done");
  EXPECT_EQ(finished.err, "");
}

TEST(StoppedRank, StillEndsTheOthersAfterTheTimeout) {
  Process process(two_ranks("60"));
  ASSERT_TRUE(process.wait_for_output([](const std::string& out) { return !out.empty(); }));
  ASSERT_EQ(::kill(process.rank(1), SIGSTOP), 0);
  const Finished finished = process.finish(60);
  EXPECT_NE(finished.status, 0);
  EXPECT_CONTAINS(finished.err, "for rank 1 (process ");
}

// MPI_Init's watchdog starts again, too.
TEST(SuspendedStart, HasTheWholeTimeoutAfterAPause) {
  Process process(by_rank({TP_MPIRUN_PROGRAM, "--oversubscribe", "-np", "2"},
                          {{TP_RANK_PROBE, "exchange", "1", "8"}, {"sleep", "60"}}));
  ASSERT_TRUE(process.wait_for_message("waited 2 s for the other ranks to start"));
  const pid_t rank = process.rank(0);
  ASSERT_EQ(::kill(rank, SIGSTOP), 0);
  std::this_thread::sleep_for(9s);
  ASSERT_EQ(::kill(rank, SIGCONT), 0);
  std::this_thread::sleep_for(3s);
  EXPECT_FALSE(process.wait_for_message("timeout: ", 0.1));  // not 3, because sanitizers lengthen this wait
  EXPECT_TRUE(process.wait_for_message("timeout: ", 30));
  EXPECT_NE(process.finish().status, 0);
}

}  // namespace
}  // namespace tp::test

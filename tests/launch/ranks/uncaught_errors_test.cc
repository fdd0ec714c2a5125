// Exceptions that leave a thread or another function that must not throw: one message, all ranks end, exit
// status 1.

#include "tests/expect_contains.h"
#include "tests/launch/program.h"

#include <csignal>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace tp::test {
namespace {

// The probe is started like a script that would run tp-infer, whose name it ignores.
Finished run_probe(std::size_t ranks, const std::string& place) {
  return Process(command_line(ranks, {place}, TP_UNCAUGHT_ERROR_PROBE)).finish();
}

std::string name_of_host() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

TEST(UncaughtErrors, AreReportedLikeErrorsOfTheMainThread) {
  for (const char* place : {"thread", "destructor", "noexcept", "team", "two threads"}) {
    SCOPED_TRACE(place);
    expect_one_error(run_probe(kNoMpirun, place), 1, "tp-infer: out of memory; free some");
    expect_one_line(run_probe(3, place), 1,
                    "tp-infer: [rank 2/3 on " + name_of_host() + "] out of memory; free some");
  }
}

TEST(UncaughtErrors, AreReportedWithoutAnyMemory) {
  if (TP_SANITIZED) GTEST_SKIP() << kNoAddressLimits;
  expect_one_error(run_probe(kNoMpirun, "exhausted"), 1, "tp-infer: out of memory; free some");
  // MPI may fail without memory. The job ends anyway.
  const Finished finished = run_probe(3, "exhausted");
  EXPECT_NE(finished.status, 0);
  EXPECT_CONTAINS(finished.err, "] out of memory; free some\n");
}

TEST(UncaughtErrors, KeepTheirText) {
  const std::string text = "the file is damaged; download it again";
  expect_one_error(run_probe(kNoMpirun, "error"), 1, "tp-infer: " + text);
  expect_one_line(run_probe(2, "error"), 1, "tp-infer: [rank 1/2 on " + name_of_host() + "] " + text);
}

// Nothing is known about such an exception, so the process leaves a core file.
TEST(UncaughtErrors, WithoutATextEndTheProcessAsUsual) {
  const Finished finished = run_probe(kNoMpirun, "number");
  EXPECT_EQ(finished.status, 128 + SIGABRT);
  EXPECT_CONTAINS(finished.err, "terminate called after throwing an instance of 'int'");
}

}  // namespace
}  // namespace tp::test

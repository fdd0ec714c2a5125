// tp::run on the ranks of a test. tests/package runs programs that also start MPI with it.
#include "tp/run.h"

#include "parallel/exchange/collectives.h"
#include "tests/mpi_test.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

const EngineOptions kDemo{.model = TP_DEMO_MODEL, .threads = 1};

// This rank's exit status, and its text on stderr.
struct Outcome {
  int status = 0;
  std::string err;
};

Outcome outcome_of(Communicator& comm, const EngineOptions& options, const Lead& lead) {
  testing::internal::CaptureStderr();
  const int status = run(comm, options, lead);
  return {status, testing::internal::GetCapturedStderr()};
}

TEST(Run, ReturnsTheStatusOfRank0) {
  Communicator& comm = test::world();
  std::size_t tokens = 0;
  const Outcome outcome = outcome_of(comm, kDemo, [&](Engine& engine) {
    engine.submit({.prompt = engine.encode("Once"), .max_tokens = 3, .ignore_eos = true});
    while (engine.has_work()) tokens += engine.step().size();
    return 7;
  });
  EXPECT_EQ(outcome.status, comm.is_root() ? 7 : 0);
  EXPECT_EQ(tokens, comm.is_root() ? 3U : 0U);
  EXPECT_EQ(outcome.err, "");
}

TEST(Run, ReportsAnErrorBetweenStepsOnceAndEndsAllRanks) {
  Communicator& comm = test::world();
  const Outcome outcome =
      outcome_of(comm, kDemo, [](Engine&) -> int { throw std::runtime_error("the pen\nis empty"); });
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, comm.is_root() ? "library_test: the pen?is empty\n" : "");
  barrier(comm);  // the communicator still works
}

TEST(Run, ReportsAWrongModelOnce) {
  Communicator& comm = test::world();
  for (const char* model : {"/nowhere", ""}) {
    const Outcome outcome = outcome_of(comm, {.model = model}, [](Engine&) { return 0; });
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), comm.is_root() ? 1 : 0) << outcome.err;
    const std::string begin = std::string("library_test: cannot open the model \"") + model + "\": expected";
    EXPECT_EQ(outcome.err.starts_with(begin), comm.is_root()) << outcome.err;
  }
}

}  // namespace
}  // namespace tp

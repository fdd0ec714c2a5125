// main() of a GoogleTest program that mpirun starts on several ranks. Every rank runs the same tests in the
// same order. Rank 0 prints as usual. Other ranks print failures with their number. The exit status is 1 if a
// test failed on any rank.
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/mpi_call.h"
#include "parallel/exchange/mpi_session.h"
#include "parallel/machine/stopwatch.h"
#include "tests/mpi_test.h"
#include "tp/mpi.h"

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

Communicator* the_world = nullptr;

}  // namespace

Communicator& world() {
  the_world->stats() = CommStats{};
  return *the_world;
}

}  // namespace tp::test

namespace {

using testing::TestInfo;
using testing::TestPartResult;

// The printer of ranks > 0.
class FailuresOnly : public testing::EmptyTestEventListener {
 public:
  explicit FailuresOnly(const tp::Communicator& comm) : comm_(comm) {}

  // UnitTest::current_test_info() would wait for a lock that is held while a failure is reported.
  void OnTestStart(const TestInfo& test) override {
    name_ = std::string(test.test_suite_name()) + "." + test.name();
  }

  void OnTestPartResult(const TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %zu/%zu] %s failed at %s:%d\n%s\n", comm_.rank(), comm_.size(), name_.c_str(),
                 result.file_name() != nullptr ? result.file_name() : "?", result.line_number(),
                 result.message());
  }

 private:
  const tp::Communicator& comm_;
  std::string name_ = "?";
};

// Ranks meet after every test. A failed test may have left other ranks inside a collective, where they would
// wait forever. In this case, this rank ends the job after it has reported the failure.
class MeetAfterTest : public testing::EmptyTestEventListener {
 public:
  explicit MeetAfterTest(const tp::Communicator& comm) : comm_(comm) {}

  void OnTestEnd(const TestInfo& test) override {
    MPI_Request request = MPI_REQUEST_NULL;
    TP_MPI(MPI_Ibarrier(comm_.handle(), &request));
    const tp::Stopwatch watch;
    int met = 0;
    while (true) {
      TP_MPI(MPI_Test(&request, &met, MPI_STATUS_IGNORE));
      if (met != 0) return;
      if (test.result()->Failed() && watch.seconds() > kPatience) {
        std::fprintf(stderr, "[rank %zu/%zu] %s.%s failed and left other ranks waiting; ending all\n",
                     comm_.rank(), comm_.size(), test.test_suite_name(), test.name());
        std::fflush(nullptr);
        tp::MpiSession::abort(1);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  static constexpr double kPatience = 20.0;  // seconds that other ranks may still work on the same test

  const tp::Communicator& comm_;
};

}  // namespace

int main(int argc, char** argv) {
  const tp::MpiSession session;
  testing::InitGoogleTest(&argc, argv);
  tp::Communicator comm(MPI_COMM_WORLD);
  tp::test::the_world = &comm;
  // A separate communicator, because messages that a test leaves must not keep the ranks from meeting.
  tp::Communicator meeting(MPI_COMM_WORLD);
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (!comm.is_root()) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly(comm));
  }
  listeners.Append(new MeetAfterTest(meeting));
  const int status = RUN_ALL_TESTS();
  return static_cast<int>(tp::max_over_ranks(meeting, status));
}

// Ranks that are killed, stopped or idle.

#include "tests/environment_variable.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <csignal>
#include <optional>
#include <ostream>
#include <thread>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using namespace std::chrono_literals;

Arguments long_text(const TextModel& model, const std::string& tokens) {
  return {"generate", "--model",      model.path(),   "--prompt", "Hi",
          "--greedy", "--ignore-eos", "--max-tokens", tokens};
}

class KilledRank : public testing::TestWithParam<int> {};

TEST_P(KilledRank, EndsTheJobWithinSecondsAndIsNamed) {
  const TextModel model;
  Process process(command_line(3, long_text(model, "4000")));
  ASSERT_TRUE(process.wait_for_output(has_begun));
  const pid_t victim = process.rank(GetParam());
  ASSERT_NE(victim, -1);
  const auto killed = std::chrono::steady_clock::now();
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  const Finished finished = process.finish(15);
  EXPECT_LT(std::chrono::steady_clock::now() - killed, 8s);
  EXPECT_NE(finished.status, 0);
  EXPECT_CONTAINS(finished.err, "process rank " + std::to_string(GetParam()));
  EXPECT_CONTAINS(finished.err, "signal 9");
}

INSTANTIATE_TEST_SUITE_P(OfThree, KilledRank, testing::Values(0, 1, 2));

struct Stop {
  std::size_t ranks;
  int stopped;
  const char* way;  // way of all-reduces

  friend std::ostream& operator<<(std::ostream& out, const Stop& stop) {
    return out << "rank " << stop.stopped << " of " << stop.ranks << ", " << stop.way;
  }
};

class StoppedRank : public testing::TestWithParam<Stop> {
 protected:
  // Starts a job and stops one of its ranks after the job has begun to write.
  void start_and_stop(const Arguments& arguments) {
    process_.emplace(command_line(GetParam().ranks, arguments));
    ASSERT_TRUE(process_->wait_for_output(has_begun));
    stopped_ = process_->rank(GetParam().stopped);
    ASSERT_NE(stopped_, -1);
    ASSERT_EQ(::kill(stopped_, SIGSTOP), 0);
  }
  std::string waited_for_it() const {
    return " for rank " + std::to_string(GetParam().stopped) + " (process " + std::to_string(stopped_) +
           " on ";
  }

  const TextModel model_;
  const EnvironmentVariable patience_{"TP_PATIENCE", "1.5"};
  const EnvironmentVariable way_{"TP_ALL_REDUCE", GetParam().way};
  std::optional<Process> process_;
  pid_t stopped_ = -1;
};

TEST_P(StoppedRank, IsNamedOnceAndOnlyDelaysTheText) {
  const Arguments arguments = long_text(model_, "1000");
  const std::string expected = run(GetParam().ranks, arguments).out;
  ASSERT_NO_FATAL_FAILURE(start_and_stop(arguments));
  EXPECT_TRUE(process_->wait_for_message(", stopped); "));
  // Ranks that wait for the stopped rank leave the processors to other programs.
  const pid_t waiting = process_->rank(GetParam().stopped == 0 ? 1 : 0);
  const double before = processor_seconds(waiting);
  std::this_thread::sleep_for(1s);
  EXPECT_LT(processor_seconds(waiting) - before, 0.3) << "of 1 s";
  ASSERT_EQ(::kill(stopped_, SIGCONT), 0);
  const Finished finished = process_->finish();
  EXPECT_EQ(finished.status, 0);
  EXPECT_EQ(finished.out, expected);
  EXPECT_EQ(count_of(finished.err, ", stopped); "), 1U) << finished.err;
  EXPECT_CONTAINS(finished.err, waited_for_it());
}

TEST_P(StoppedRank, EndsTheJobAfterTheTimeout) {
  Arguments arguments = long_text(model_, "4000");
  arguments.insert(arguments.end(), {"--timeout", "2"});
  ASSERT_NO_FATAL_FAILURE(start_and_stop(arguments));
  const Finished finished = process_->finish();
  EXPECT_EQ(finished.status, 1);
  EXPECT_CONTAINS(finished.err, waited_for_it());
  EXPECT_EQ(count_of(finished.err, "more than --timeout allows"), 1U) << finished.err;
}

INSTANTIATE_TEST_SUITE_P(OfSome, StoppedRank,
                         testing::Values(Stop{2, 0, "shared"}, Stop{2, 1, "messages"}, Stop{3, 2, "shared"}));

// Whether a rank eventually uses at most a tenth of a processor and sleeps for 20 ms at a time.
bool comes_to_rest(const Process& process, int rank) {
  for (int second = 0; second < 20; ++second) {
    const pid_t idle = process.rank(rank);
    const double processor_before = processor_seconds(idle);
    const std::size_t sleeps_before = sleeps_of(idle);
    const auto start = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(1s);
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto sleeps = static_cast<double>(sleeps_of(idle) - sleeps_before);
    if (processor_seconds(idle) - processor_before < passed / 10 && sleeps > 0 && sleeps < passed * 70)
      return true;
  }
  return false;
}

// Idle ranks wait as long as the user likes, without reports or errors.
TEST(IdleRanks, SleepWhileTheFirstOneReadsItsInput) {
  const TextModel model;
  const EnvironmentVariable patience("TP_PATIENCE", "2");
  Process process(command_line(2, {"generate", "--model", model.path(), "--prompt-file", "-", "--max-tokens",
                                   "2", "--timeout", "2"}),
                  {.keep_input_open = true});
  EXPECT_TRUE(comes_to_rest(process, 1));
  std::this_thread::sleep_for(2500ms);  // longer than the patience and the timeout
  process.write_input("Hello");
  process.close_input();
  const Finished finished = process.finish();
  expect_success(finished);
  EXPECT_TRUE(finished.out.starts_with("Hello")) << finished.out;
}

}  // namespace
}  // namespace tp::test

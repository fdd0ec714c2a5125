// Ranks that are killed, stopped, or have nothing to do.

#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <csignal>
#include <thread>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using namespace std::chrono_literals;

Arguments long_text(const TextModel& model, const std::string& tokens) {
  return {"generate", "--model",      model.path(),   "--prompt", "Hi",
          "--greedy", "--ignore-eos", "--max-tokens", tokens};
}

bool has_begun(const std::string& out) { return out.size() > 20; }

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

TEST(StoppedRank, OnlyDelaysTheText) {
  const TextModel model;
  const std::string expected = run(3, long_text(model, "1000")).out;
  Process process(command_line(3, long_text(model, "1000")));
  ASSERT_TRUE(process.wait_for_output(has_begun));
  const pid_t slow = process.rank(1);
  ASSERT_NE(slow, -1);
  ASSERT_EQ(::kill(slow, SIGSTOP), 0);
  std::this_thread::sleep_for(700ms);
  ASSERT_EQ(::kill(slow, SIGCONT), 0);
  const Finished finished = process.finish();
  expect_success(finished);
  EXPECT_EQ(finished.out, expected);
}

TEST(IdleRanks, SleepWhileTheFirstOneReadsItsInput) {
  const TextModel model;
  Process process(
      command_line(2, {"generate", "--model", model.path(), "--prompt-file", "-", "--max-tokens", "2"}),
      {.keep_input_open = true});
  std::this_thread::sleep_for(1500ms);  // starting MPI takes a while
  const pid_t follower = process.rank(1);
  ASSERT_NE(follower, -1);
  const double before = processor_seconds(follower);
  std::this_thread::sleep_for(2s);
  EXPECT_LT(processor_seconds(follower) - before, 0.6) << "of 2 s";
  process.write_input("Hello");
  process.close_input();
  const Finished finished = process.finish();
  expect_success(finished);
  EXPECT_TRUE(finished.out.starts_with("Hello")) << finished.out;
}

}  // namespace
}  // namespace tp::test

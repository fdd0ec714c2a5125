// Costs learned from measured step times.
#include "runtime/protocol/step_times.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr std::size_t kMin = StepTimes::kMinPromptTokens;

TEST(StepTimes, AllowLittleBeforeAnythingIsKnown) {
  const StepTimes times;
  EXPECT_EQ(times.prompt_tokens_in(std::chrono::duration<double>(0.2)), kMin);
  EXPECT_EQ(times.prefill_tokens_per_second(), 0.0);
  EXPECT_EQ(times.decode_tokens_per_second(), 0.0);
}

TEST(StepTimes, LearnFromOneStep) {
  StepTimes times;
  times.add(500, 0, 1.0);  // 2 ms each
  EXPECT_EQ(times.prompt_tokens_in(std::chrono::duration<double>(0.2)), 100U);
  EXPECT_EQ(times.prompt_tokens_in(std::chrono::duration<double>(0.001)), kMin);
  EXPECT_DOUBLE_EQ(times.prefill_tokens_per_second(), 500.0);
}

TEST(StepTimes, CountAsThePromptsTimeOnlyWhatGeneratingDoesNotTake) {
  StepTimes times;
  times.add(0, 4, 0.3);
  times.add(100, 4, 0.5);  // 0.2 s for the prompt
  EXPECT_EQ(times.prompt_tokens_in(std::chrono::duration<double>(0.2)), 100U);
  EXPECT_DOUBLE_EQ(times.decode_tokens_per_second(), (0.9 * 4 + 4) / (0.9 * 0.3 + 0.5));
}

TEST(StepTimes, DoNotTakePromptsForFreeIfGeneratingWasSlowerBefore) {
  StepTimes times;
  times.add(0, 64, 3.0);
  times.add(100, 1, 1.0);  // at least a tenth of the time
  EXPECT_EQ(times.prompt_tokens_in(std::chrono::duration<double>(0.2)), 200U);
}

TEST(StepTimes, IgnoreOneSlowStepAndFollowAMachineThatHasBecomeSlower) {
  StepTimes times;
  for (int i = 0; i < 10; ++i) times.add(100, 0, 0.1);
  times.add(100, 0, 20.0);
  EXPECT_EQ(times.prompt_tokens_in(std::chrono::duration<double>(0.2)), 200U);
  times.add(100, 0, 0.4);
  times.add(100, 0, 0.4);
  EXPECT_EQ(times.prompt_tokens_in(std::chrono::duration<double>(0.2)), 50U);
}

// A step with few tokens takes the time to read its weights.
TEST(StepTimes, LearnNothingOfPromptsFromAFewTokens) {
  StepTimes times;
  times.add(100, 0, 0.1);
  for (int i = 0; i < 10; ++i) times.add(2, 0, 0.1);
  EXPECT_EQ(times.prompt_tokens_in(std::chrono::duration<double>(0.2)), 200U);
}

TEST(StepTimes, LearnNothingFromStepsWhoseTimeIsUnknown) {
  StepTimes times;
  times.add(100, 1, 0.0);
  EXPECT_EQ(times.prompt_tokens_in(std::chrono::duration<double>(0.2)), kMin);
}

}  // namespace
}  // namespace tp

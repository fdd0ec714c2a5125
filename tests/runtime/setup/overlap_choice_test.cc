#include "runtime/setup/overlap_choice.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr std::size_t kRows = 512;

// Runs `steps` steps of one second each. `share`: part of the time on the wire that undivided steps report.
// Returns how many steps were divided.
std::size_t divided_steps(OverlapChoice& choice, std::size_t steps, double share, std::size_t rows = kRows) {
  std::size_t divided = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    const bool divides = choice.divides(rows);
    divided += divides ? 1 : 0;
    choice.add(rows, divides, 1.0, share);
  }
  return divided;
}

TEST(OverlapChoice, DividesLargeStepsIfTheWireTakesMoreThanAThird) {
  OverlapChoice slow_wire(TwoBatchOverlap::automatic);
  EXPECT_FALSE(slow_wire.divides(kRows)) << "nothing is known";
  EXPECT_EQ(divided_steps(slow_wire, 1, 0.4), 0U);
  EXPECT_EQ(divided_steps(slow_wire, 10, 0.4), 10U);
  EXPECT_FALSE(slow_wire.divides(OverlapChoice::kMinRows - 1));
  EXPECT_TRUE(slow_wire.divides(OverlapChoice::kMinRows));
  OverlapChoice fast_wire(TwoBatchOverlap::automatic);
  EXPECT_EQ(divided_steps(fast_wire, 100, 0.3), 0U);
}

TEST(OverlapChoice, LearnsNothingFromSmallSteps) {
  OverlapChoice choice(TwoBatchOverlap::automatic);
  EXPECT_EQ(divided_steps(choice, 20, 0.9, 32), 0U);
  EXPECT_FALSE(choice.divides(kRows));
}

TEST(OverlapChoice, LooksAgainNowAndThenAndFollowsAChange) {
  OverlapChoice choice(TwoBatchOverlap::automatic);
  divided_steps(choice, 1, 0.5);
  const std::size_t steps = 10 * OverlapChoice::kLookEvery;
  EXPECT_EQ(divided_steps(choice, steps, 0.5), steps - 10) << "one of so many is whole";
  // The wire has become faster, or the ranks slower. The median of five looks follows after three.
  divided_steps(choice, 3 * OverlapChoice::kLookEvery, 0.1);
  EXPECT_EQ(divided_steps(choice, 50, 0.1), 0U);
}

TEST(OverlapChoice, CanBeForced) {
  OverlapChoice on(TwoBatchOverlap::on);
  OverlapChoice off(TwoBatchOverlap::off);
  EXPECT_TRUE(on.divides(2));
  EXPECT_EQ(divided_steps(on, 40, 0.0), 40U);
  EXPECT_EQ(divided_steps(off, 40, 0.9), 0U);
}

}  // namespace
}  // namespace tp

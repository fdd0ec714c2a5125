#include "runtime/setup/plan_agreement.h"

#include "parallel/exchange/fail_together.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/mpi_test.h"
#include "tp/communicator.h"
#include "tp/error.h"
#include "tp/version.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

TEST(PlanAgreement, AcceptsRanksOfOneBuild) {
  EXPECT_NO_THROW(require_same_build(test::world(), build_text()));
}

TEST(PlanAgreement, RefusesRanksOfDifferentBuildsAndNamesBoth) {
  Communicator& world = test::world();
  if (world.size() == 1) GTEST_SKIP() << "one rank has one build";
  const std::size_t last = world.size() - 1;
  const std::string own = world.rank() == last ? "0.2.0, commit bbb" : "0.2.0, commit aaa";
  const std::string error = test::error_of<AgreedError>([&] { require_same_build(world, own); });
  EXPECT_CONTAINS(error,
                  fmt::format("found 0.2.0, commit aaa on rank 0, and 0.2.0, commit bbb on rank {};", last));
}

TEST(PlanAgreement, ComparesTheCommitAndTheOptionsOfTheBuild) {
  const std::string text = build_text();
  EXPECT_TRUE(text.starts_with(fmt::format("{}, commit {}, ", kVersion, build_commit()))) << text;
  EXPECT_CONTAINS(text, " kernels -");
}

}  // namespace
}  // namespace tp

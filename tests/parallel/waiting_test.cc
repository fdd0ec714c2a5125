#include "parallel/all_reduce.h"
#include "parallel/collectives.h"
#include "parallel/fail_together.h"
#include "tests/environment_variable.h"
#include "tests/mpi_test.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

// Whether rank `slow`, which comes late to every all-reduce, waited for less than half of its own delays and
// every other rank for more. Collective; the answer is the same on every rank.
bool slow_rank_is_found(Communicator& comm, std::size_t slow) {
  constexpr int kCalls = 4;
  constexpr double kLate = 0.05;  // seconds a call
  comm.stats() = CommStats{};
  barrier(comm);
  for (int call = 0; call < kCalls; ++call) {
    if (comm.rank() == slow) std::this_thread::sleep_for(std::chrono::duration<double>(kLate));
    float one = 1.0F;
    all_reduce(comm, PartialSum(TensorView<float>(&one, 1, 1)));
  }
  const double waited = waiting_seconds(comm);
  EXPECT_GE(waited, 0.0);
  EXPECT_LE(waited, comm.stats().all_reduce.seconds + 1e-3);
  const bool waited_long = waited > kCalls * kLate / 2;
  const bool as_expected = waited_long == (comm.rank() != slow);
  return max_over_ranks(comm, as_expected ? 0 : 1) == 0;
}

// A rank that comes late to every all-reduce waits for nobody; the others wait for it. A busy machine makes
// any rank late, so it may take several tries.
TEST(WaitingSeconds, AreTheTimeSpentForTheSlowRank) {
  Communicator& comm = test::world();
  for (std::size_t slow = 0; slow < comm.size(); ++slow) {
    bool found = false;
    for (int attempt = 0; attempt < 10 && !found; ++attempt) found = slow_rank_is_found(comm, slow);
    EXPECT_TRUE(found) << "rank " << slow << " was slow";
  }
}

// Whatever the rank that comes last spends is the exchange itself.
TEST(WaitingSeconds, OfACallAreZeroOnTheRankThatCameLast) {
  Communicator& comm = test::world();
  comm.stats() = CommStats{};
  float one = 1.0F;
  all_reduce(comm, PartialSum(TensorView<float>(&one, 1, 1)));
  const bool was_last = waiting_seconds(comm) == 0.0;
  EXPECT_EQ(max_over_ranks(comm, was_last ? 1 : 0), 1);
}

TEST(WaitingSeconds, CountEveryCallOnce) {
  Communicator& comm = test::world();
  comm.stats() = CommStats{};
  EXPECT_EQ(waiting_seconds(comm), 0.0);
  float one = 1.0F;
  all_reduce(comm, PartialSum(TensorView<float>(&one, 1, 1)));
  const double once = waiting_seconds(comm);
  EXPECT_EQ(waiting_seconds(comm), once);
}

// Processes live for weeks, and nobody may ever ask.
TEST(WaitingSeconds, KeepTheTimesOfABoundedNumberOfCalls) {
  Communicator& comm = test::world();
  constexpr std::size_t kCalls = 5000;
  float one = 1.0F;
  std::size_t kept = 0;
  for (std::size_t call = 0; call < kCalls; ++call) {
    all_reduce(comm, PartialSum(TensorView<float>(&one, 1, 1)));
    kept = std::max(kept, comm.stats().all_reduce_seconds.size());
  }
  EXPECT_LE(kept, 4096U);
  EXPECT_EQ(comm.stats().all_reduce.calls, kCalls);
  // None is forgotten: on the rank that came last to all of them, or on another one.
  const double waited = waiting_seconds(comm);
  EXPECT_GE(waited, 0.0);
  EXPECT_LE(waited, comm.stats().all_reduce.seconds + 1e-3);
}

// Ranks with little patience; whom they waited for longer than that, as they were told.
struct Impatient {
  explicit Impatient(const Communicator& parent)
      : comm(parent.handle(),
             {.on_long_wait = [this](const std::string& text) { told.push_back(text); }, .patience = 0.3}) {}

  std::vector<std::string> told;
  Communicator comm;
};

void come_late() { std::this_thread::sleep_for(std::chrono::milliseconds(800)); }

TEST(LongWaits, AreToldOfOnceByTheFirstRankThatWaits) {
  Communicator& world = test::world();
  if (world.size() == 1) GTEST_SKIP() << "one rank";
  for (const char* way : {"shared", "messages"}) {
    const test::EnvironmentVariable variable("TP_ALL_REDUCE", way);
    Impatient impatient(world);
    for (const std::size_t late : {std::size_t{0}, world.size() - 1}) {
      barrier(world);
      impatient.told.clear();
      if (world.rank() == late) come_late();
      float one = 1.0F;
      all_reduce(impatient.comm, PartialSum(TensorView<float>(&one, 1, 1)));
      const std::size_t speaker = late == 0 ? 1 : 0;
      if (world.rank() != speaker) {
        EXPECT_TRUE(impatient.told.empty()) << way << ": " << impatient.told.front();
        continue;
      }
      ASSERT_EQ(impatient.told.size(), 1U) << way;
      const std::string& text = impatient.told.front();
      EXPECT_NE(text.find(fmt::format("in an all-reduce for rank {} (process ", late)), std::string::npos)
          << text;
      EXPECT_EQ(text.find(','), std::string::npos) << text;  // no second rank, and it is not stopped
    }
  }
}

TEST(LongWaits, ForRankZeroToSayWhatIsNextAreNoNews) {
  Impatient impatient(test::world());
  if (impatient.comm.is_root()) come_late();
  char byte = 'x';
  broadcast_bytes(impatient.comm, std::as_writable_bytes(std::span(&byte, 1)));
  EXPECT_TRUE(impatient.told.empty());
  fail_together(impatient.comm, [&] {
    if (impatient.comm.is_root()) come_late();
  });
  EXPECT_TRUE(impatient.told.empty());
}

TEST(LongWaits, ForARankThatLoadsLongAreToldOf) {
  Communicator& world = test::world();
  if (world.size() == 1) GTEST_SKIP() << "one rank";
  Impatient impatient(world);
  fail_together(impatient.comm, [&] {
    if (world.rank() == 1) come_late();
  });
  ASSERT_EQ(impatient.told.size(), world.is_root() ? 1U : 0U);
  if (!world.is_root()) return;
  EXPECT_NE(impatient.told.front().find("in a synchronization of all ranks for rank 1 "), std::string::npos)
      << impatient.told.front();
}

TEST(LongWaits, BetweenHostsNameTheRanksThatMayBeMissing) {
  Communicator& world = test::world();
  if (world.size() < 4) GTEST_SKIP() << "two hosts of two ranks";
  std::vector<std::string> told;
  const Placement placement = find_placement(world.handle(), static_cast<int>(world.rank()) / 2);
  const Patience patience{
      placement, {.on_long_wait = [&](const std::string& text) { told.push_back(text); }, .patience = 0.3}};
  Exchange exchange(world.handle(), patience);
  std::string why;
  const auto shared = SharedSum::create(world.handle(), patience, exchange, why);
  ASSERT_NE(shared, nullptr) << why;
  barrier(world);
  if (world.rank() == 3) come_late();
  std::vector<float> data(1, 1.0F);
  (*shared)(data);
  const std::size_t lines = world.rank() == 0 || world.rank() == 2 ? 1 : 0;
  ASSERT_EQ(told.size(), lines);
  if (lines == 0) return;
  // Rank 3 alone where it is seen, and its host where not.
  EXPECT_NE(told.front().find(world.rank() == 2 ? "for rank 3 (" : "for rank 2 ("), std::string::npos)
      << told.front();
  EXPECT_NE(told.front().find("rank 3 ("), std::string::npos) << told.front();
}

}  // namespace
}  // namespace tp

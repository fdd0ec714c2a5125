#include "parallel/exchange/agreement.h"
#include "parallel/exchange/all_reduce.h"
#include "parallel/exchange/collectives.h"
#include "tests/environment_variable.h"
#include "tests/mpi_test.h"
#include "tp/mpi.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

// Whether rank `slow`, which is late for every all-reduce, waited for less than half of its own delays, and
// every other rank for more. Collective. All ranks get the same answer.
bool slow_rank_is_found(Communicator& comm, std::size_t slow) {
  constexpr int kCalls = 4;
  constexpr double kLate = 0.05;  // seconds per call
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

// A rank that is late for every all-reduce waits for no other rank, but they wait for it. A busy machine
// makes any rank late, so this may take several attempts.
TEST(WaitingSeconds, AreTheTimeSpentForTheSlowRank) {
  Communicator& comm = test::world();
  for (std::size_t slow = 0; slow < comm.size(); ++slow) {
    bool found = false;
    for (int attempt = 0; attempt < 10 && !found; ++attempt) found = slow_rank_is_found(comm, slow);
    EXPECT_TRUE(found) << "rank " << slow << " was slow";
  }
}

// The last rank's time is only the exchange itself.
TEST(WaitingSeconds, AreZeroOnTheLastRankOfACall) {
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

// Processes run for weeks, and may never be asked.
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
  // No call is forgotten, on the last rank of all calls or on another one.
  const double waited = waiting_seconds(comm);
  EXPECT_GE(waited, 0.0);
  EXPECT_LE(waited, comm.stats().all_reduce.seconds + 1e-3);
}

// Ranks with little patience, and the reports that they get about longer waits.
struct Impatient {
  // Ranks with different `group`s count as different hosts.
  explicit Impatient(const Communicator& world, int group = 0)
      : placement(find_placement(world.handle(), group)),
        patience{
            placement,
            {.on_long_wait = [this](const std::string& text) { messages.push_back(text); }, .patience = 0.3}},
        exchange(world.handle(), patience),
        sums(world.handle(), patience, exchange) {}

  // Whether it got one report that contains all of `parts`.
  bool has_message(std::initializer_list<std::string> parts) const {
    return messages.size() == 1 && std::ranges::all_of(parts, [&](const std::string& part) {
             return messages.front().find(part) != std::string::npos;
           });
  }
  std::string all() const { return fmt::format("{}", fmt::join(messages, "\n")); }

  std::vector<std::string> messages;
  Placement placement;
  Patience patience;
  Exchange exchange;
  AllReduce sums;
};

// Whether every rank finds what it expects after a collective call for which `late` is late. A busy machine
// makes any rank late, so this may take several attempts.
bool finds(Communicator& world, Impatient& ranks, std::size_t late, const std::function<void()>& call,
           const std::function<bool()>& as_expected) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    barrier(world);
    ranks.messages.clear();
    if (world.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(800));
    call();
    if (max_over_ranks(world, as_expected() ? 0 : 1) == 0) return true;
  }
  return false;
}

TEST(LongWaits, AreReportedOnceByTheFirstWaitingRank) {
  Communicator& world = test::world();
  if (world.size() == 1) GTEST_SKIP() << "one rank";
  for (const char* way : {"shared", "messages"}) {
    const test::EnvironmentVariable variable("TP_ALL_REDUCE", way);
    Impatient ranks(world);
    std::vector<float> data(1, 1.0F);
    for (const std::size_t late : {std::size_t{0}, world.size() - 1}) {
      const std::size_t speaker = late == 0 ? 1 : 0;
      const std::string text = fmt::format("in an all-reduce for rank {} (process ", late);
      EXPECT_TRUE(finds(
          world, ranks, late,
          [&] {
            ranks.sums(std::span<const float>(data), {data.data(), false});
          },
          [&] {
            if (world.rank() != speaker) return ranks.messages.empty();
            // There is no second rank, and the rank is not stopped.
            return ranks.has_message({text}) && ranks.messages.front().find(',') == std::string::npos;
          }))
          << way << ", " << late << " late: " << ranks.all();
    }
  }
}

TEST(LongWaits, ForRankZerosNextCommandAreNotReported) {
  Communicator& world = test::world();
  Impatient ranks(world);
  const auto none = [&] { return ranks.messages.empty(); };
  EXPECT_TRUE(finds(
      world, ranks, 0, [&] { first_error(ranks.exchange, ""); }, none))
      << ranks.all();
}

TEST(LongWaits, ForASlowlyLoadingRankAreReported) {
  Communicator& world = test::world();
  if (world.size() == 1) GTEST_SKIP() << "one rank";
  Impatient ranks(world);
  EXPECT_TRUE(finds(
      world, ranks, 1, [&] { first_error(ranks.exchange, ""); },
      [&] {
        return world.is_root() ? ranks.has_message({"in a synchronization of all ranks for rank 1 ("})
                               : ranks.messages.empty();
      }))
      << ranks.all();
}

TEST(LongWaits, BetweenHostsNameTheRanksThatMayBeMissing) {
  Communicator& world = test::world();
  if (world.size() < 4) GTEST_SKIP() << "two hosts of two ranks";
  Impatient ranks(world, static_cast<int>(world.rank()) / 2);
  std::vector<float> data(1, 1.0F);
  EXPECT_TRUE(finds(
      world, ranks, 3,
      [&] {
        ranks.sums(std::span<const float>(data), {data.data(), false});
      },
      [&] {
        // The report names only rank 3 if it is visible, otherwise its host.
        if (world.rank() == 2) return ranks.has_message({"for rank 3 ("});
        if (world.rank() == 0) return ranks.has_message({"for rank 2 (", ", rank 3 ("});
        return ranks.messages.empty();
      }))
      << ranks.all();
}

}  // namespace
}  // namespace tp

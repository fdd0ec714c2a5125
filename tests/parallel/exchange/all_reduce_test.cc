// The ways of an all-reduce: through shared memory and by messages, on one host and on several.
#include "parallel/exchange/all_reduce.h"

#include "parallel/exchange/collectives.h"
#include "parallel/machine/numa.h"
#include "tests/environment_variable.h"
#include "tests/mpi_test.h"
#include "tests/reference/random.h"
#include "tp/mpi.h"

#include <chrono>
#include <cmath>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

namespace tp {
namespace {

// Sizes near each limit: a run of 64 elements, work shared by ranks, and one or several pieces.
constexpr std::size_t kSizes[] = {0,    1,    63,    64,    65,    1000,   4095,   4096,
                                  8191, 8193, 65535, 65536, 65537, 200000, 262145, 600000};

std::vector<float> addend_of(std::size_t rank, std::size_t call, std::size_t size) {
  reference::Random random(1000 * call + rank);
  return random.numbers(size);
}

// Ways of all-reduces. Ranks with different `group`s count as different hosts.
struct Ways {
  explicit Ways(Communicator& comm, int group = 0)
      : placement(find_placement(comm.handle(), group)),
        patience{placement, {}},
        exchange(comm.handle(), patience),
        messages(exchange, placement.hosts),
        host_roots(comm.handle(), patience),
        shared(SharedMemoryAllReduce::create(comm.handle(), patience, exchange, host_roots.wire(), why)) {}

  Placement placement;
  Patience patience;
  Exchange exchange;
  MessageAllReduce messages;
  HostRoots host_roots;
  std::string why;
  std::unique_ptr<SharedMemoryAllReduce> shared;
};

// Hosts of equal and of different sizes, alternating or consecutive. In the last case, each rank is a host.
std::vector<int> groups_of(const Communicator& comm) {
  const auto rank = static_cast<int>(comm.rank());
  return {0, rank / 2, rank % 2, rank == 0 ? 1 : 0, rank < 3 ? 0 : 1, rank};
}

// Returns the sum in the only permitted order.
std::vector<float> expected_sum(const Placement& placement, std::size_t call, std::size_t size) {
  std::vector<float> sum;
  for (const std::vector<std::size_t>& host : placement.hosts) {
    std::vector<float> of_host = addend_of(host.front(), call, size);
    for (std::size_t i = 1; i < host.size(); ++i) {
      const std::vector<float> addend = addend_of(host[i], call, size);
      for (std::size_t j = 0; j < size; ++j) of_host[j] += addend[j];
    }
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += of_host[j];
    if (sum.empty()) sum = of_host;
  }
  return sum;
}

TEST(FindPlacement, GivesHostsInTheOrderOfTheirFirstRanks) {
  Communicator& comm = test::world();
  const int group = comm.rank() == 0 || comm.rank() == 2 ? 7 : 5;
  const Placement placement = find_placement(comm.handle(), group);
  EXPECT_EQ(placement.rank, comm.rank());
  ASSERT_EQ(placement.size(), comm.size());
  std::vector<std::vector<std::size_t>> expected = {{0}};
  if (comm.size() > 1) expected.push_back({1});
  if (comm.size() > 2) expected[0].push_back(2);
  for (std::size_t rank = 3; rank < comm.size(); ++rank) expected[1].push_back(rank);
  EXPECT_EQ(placement.hosts, expected);
  EXPECT_EQ(placement.own_host(), expected[group == 7 ? 0 : 1]);
}

TEST(SharedMemoryAllReduce, ExistsOnlyIfSeveralRanksShareAHost) {
  Communicator& comm = test::world();
  EXPECT_EQ(Ways(comm).shared != nullptr, comm.size() > 1);
  EXPECT_EQ(Ways(comm, static_cast<int>(comm.rank())).shared, nullptr);
}

// One rank allocates each page. Otherwise a full /dev/shm would fail at the first access.
TEST(SharedMemoryAllReduce, HasEachPageInTheMemoryOfOneRank) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  Communicator& comm = test::world();
  for (const int group : groups_of(comm)) {
    const Ways ways(comm, group);
    std::int64_t pages = 0;  // pages of this rank's host, allocated by this rank
    if (ways.shared != nullptr) {
      const std::optional<NodePages> own = count_pages(ways.shared->own_memory(), query_pages, SIZE_MAX / 2);
      for (const std::span<const std::byte> run : ways.shared->own_memory())
        pages += static_cast<std::int64_t>(run.size() / page);
      if (own) {
        EXPECT_EQ(static_cast<std::int64_t>(own->total()), pages);
      }
    }
    const std::vector<std::int64_t> all = exchange_values(comm, std::span<const std::int64_t>(&pages, 1));
    std::int64_t sum = 0;
    for (const std::size_t other : ways.placement.own_host()) sum += all[other];
    const std::size_t slots = ways.shared == nullptr ? 0 : ways.placement.own_host().size();
    const WindowLayout layout{slots, ways.placement.hosts.size() > 1};
    EXPECT_EQ(static_cast<std::size_t>(sum) * page, slots * layout.slot_bytes());
    const bool is_root = ways.placement.own_host().front() == comm.rank();
    if (ways.shared != nullptr && ways.placement.hosts.size() > 1 && !is_root) {
      EXPECT_EQ(static_cast<std::size_t>(pages) * page, WindowSlot::kPageBytes);
    }
  }
}

TEST(AllReduce, HasTheSameBitsInEveryWay) {
  Communicator& comm = test::world();
  for (const int group : groups_of(comm)) {
    Ways ways(comm, group);
    for (const std::size_t size : kSizes) {
      const std::vector<float> expected = expected_sum(ways.placement, size, size);
      const std::vector<float> x = addend_of(99, size, size);
      std::vector<float> expected_x = x;
      for (std::size_t i = 0; i < size; ++i) expected_x[i] = expected[i] + x[i];

      const std::vector<float> own = addend_of(comm.rank(), size, size);
      const auto check = [&](auto& way, const char* name) {
        std::vector<float> onto = x;
        std::vector<float> sum = own;
        const std::span<const float> addend(sum);
        way(addend, {onto.data(), true});
        EXPECT_EQ(onto, expected_x) << name << ", " << size;
        EXPECT_EQ(sum, own) << name << ", " << size;
        way(addend, {sum.data(), false});
        EXPECT_EQ(sum, expected) << name << ", " << size;
      };
      check(ways.messages, "messages");
      if (ways.shared != nullptr) check(*ways.shared, "shared");
      if (ways.placement.hosts.size() != comm.size() || comm.size() == 1) continue;
      for (const WireWay way : {WireWay::one_shot, WireWay::two_shot}) {
        ways.host_roots.wire()->use(WireType::f32, {{1, way}});
        check(*ways.host_roots.wire(), way == WireWay::one_shot ? "one-shot" : "two-shot");
      }
    }
  }
}

// Multiples of 2^-30 below 2^22 have exact sums in any order.
TEST(AllReduce, IsExactOnAGridOfDoublesForAnyHosts) {
  Communicator& comm = test::world();
  const auto on_grid = [](std::size_t rank, std::size_t size) {
    std::vector<double> addend;
    for (const float value : addend_of(rank, size, size))
      addend.push_back(std::ldexp(std::round(std::ldexp(static_cast<double>(value) * 1e5, 30)), -30));
    return addend;
  };
  for (const int group : groups_of(comm)) {
    Ways ways(comm, group);
    for (const std::size_t size : kSizes) {
      std::vector<double> exact(size);
      for (std::size_t rank = 0; rank < comm.size(); ++rank) {
        const std::vector<double> addend = on_grid(rank, size);
        for (std::size_t i = 0; i < size; ++i) exact[i] += addend[i];
      }
      const std::vector<float> expected(exact.begin(), exact.end());
      const std::vector<float> x = addend_of(99, size, size);
      std::vector<float> expected_x = x;
      for (std::size_t i = 0; i < size; ++i) expected_x[i] += expected[i];
      const std::vector<double> own = on_grid(comm.rank(), size);
      const auto check = [&](auto& way, const char* name) {
        std::vector<float> onto = x;
        std::vector<float> sum(size);
        way(std::span<const double>(own), {onto.data(), true});
        EXPECT_EQ(onto, expected_x) << name << ", " << size;
        way(std::span<const double>(own), {sum.data(), false});
        EXPECT_EQ(sum, expected) << name << ", " << size;
      };
      check(ways.messages, "messages");
      if (ways.shared != nullptr) check(*ways.shared, "shared");
      if (ways.placement.hosts.size() != comm.size() || comm.size() == 1) continue;
      for (const WireWay way : {WireWay::one_shot, WireWay::two_shot}) {
        ways.host_roots.wire()->use(WireType::f32, {{1, way}});
        check(*ways.host_roots.wire(), way == WireWay::one_shot ? "one-shot" : "two-shot");
      }
    }
  }
}

// Calls follow immediately, with random sizes. A different rank is late in each call. A buffer that is reused
// too early gives a wrong sum.
TEST(AllReduce, KeepsCallsInARowApart) {
  Communicator& comm = test::world();
  for (const int group : groups_of(comm)) {
    Ways ways(comm, group);
    reference::Random random(1);
    int wrong_calls = 0;  // every rank must make all calls, even after an error
    for (std::size_t call = 0; call < 200; ++call) {
      const std::size_t size = random.integer(0, 9) == 0 ? random.integer(1, 150000) : random.integer(1, 500);
      const std::size_t late = random.integer(0, 3 * comm.size());
      if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::microseconds(200));
      const auto value = [&](std::size_t rank) { return static_cast<float>(call * 16 + rank); };
      float expected = 0.0F;
      for (std::size_t rank = 0; rank < comm.size(); ++rank) expected += value(rank);
      std::vector<float> data(size, value(comm.rank()));
      if (ways.shared != nullptr && call % 4 != 0) {
        (*ways.shared)(std::span<const float>(data), {data.data(), false});
      } else {
        ways.messages(std::span<const float>(data), {data.data(), false});
      }
      wrong_calls += data == std::vector<float>(size, expected) ? 0 : 1;
    }
    EXPECT_EQ(wrong_calls, 0);
  }
}

TEST(AllReduce, GoesTheWayThatTheEnvironmentOfRankZeroForces) {
  Communicator& comm = test::world();
  for (const bool shared : {true, false}) {
    const test::EnvironmentVariable variable("TP_ALL_REDUCE",
                                             shared == comm.is_root() ? "shared" : "messages");
    Communicator forced(comm.handle());
    EXPECT_EQ(forced.sums().shared() != nullptr, shared && comm.size() > 1);
  }
}

}  // namespace
}  // namespace tp

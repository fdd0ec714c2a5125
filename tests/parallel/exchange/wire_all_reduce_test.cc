// Sums that are rounded between hosts.
#include "parallel/exchange/wire_all_reduce.h"

#include "parallel/exchange/all_reduce.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/placement.h"
#include "parallel/exchange/wire_choice.h"
#include "tests/environment_variable.h"
#include "tests/error_of.h"
#include "tests/mpi_test.h"
#include "tests/parallel/exchange/sent_values.h"
#include "tests/reference/random.h"
#include "tp/error.h"
#include "tp/mpi.h"

#include <bit>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr std::size_t kWireSizes[] = {0, 1, 31, 64, 1000, 65536, 65537, 200000, 600001};

std::vector<float> wire_addend(std::size_t rank, std::size_t size) {
  return reference::Random(rank + 1).numbers(size);
}

// Sums between ranks. Ranks with different `group`s count as different hosts.
struct Hosts {
  Hosts(const Communicator& comm, int group)
      : placement(find_placement(comm.handle(), group)),
        patience{placement, {}},
        exchange(comm.handle(), patience),
        sums(comm.handle(), patience, exchange) {}

  Placement placement;
  Patience patience;
  Exchange exchange;
  AllReduce sums;
};

std::vector<int> divisions_of(const Communicator& comm) {
  const auto rank = static_cast<int>(comm.rank());
  return {0, rank / 2, rank % 2, rank == 0 ? 1 : 0, rank};
}

// Returns the rounded sum of the hosts' rounded sums.
std::vector<float> expected_sum(const Placement& placement, WireType type, std::size_t size) {
  std::vector<float> sum(size);
  for (const std::vector<std::size_t>& host : placement.hosts) {
    std::vector<float> of_host = wire_addend(host.front(), size);
    for (std::size_t i = 1; i < host.size(); ++i) {
      const std::vector<float> addend = wire_addend(host[i], size);
      for (std::size_t j = 0; j < size; ++j) of_host[j] += addend[j];
    }
    if (placement.hosts.size() > 1) of_host = test::sent(type, of_host);
    if (&host == &placement.hosts.front())
      sum = of_host;
    else
      for (std::size_t j = 0; j < size; ++j) sum[j] += of_host[j];
  }
  return placement.hosts.size() > 1 ? test::sent(type, sum) : sum;
}

// The first two ways work for any number of hosts.
std::vector<WireWay> ways_between(const Placement& placement) {
  std::vector<WireWay> ways = {WireWay::one_shot, WireWay::two_shot};
  if (std::has_single_bit(placement.hosts.size())) ways.push_back(WireWay::doubling);
  return ways;
}

TEST(WireAllReduce, RoundsTwiceBetweenHostsInEveryWay) {
  Communicator& comm = test::world();
  for (const int group : divisions_of(comm)) {
    Hosts hosts(comm, group);
    for (const WireType type : {WireType::f32, WireType::bf16, WireType::int8}) {
      for (const WireWay way : ways_between(hosts.placement)) {
        if (hosts.sums.wire() != nullptr) hosts.sums.wire()->use(type, {{1, way}});
        for (const std::size_t size : kWireSizes) {
          std::vector<float> data = wire_addend(comm.rank(), size);
          hosts.sums(std::span<const float>(data), {data.data(), false});
          EXPECT_EQ(data, expected_sum(hosts.placement, type, size)) << name_of(type) << ", " << size;
        }
      }
    }
  }
}

TEST(WireAllReduce, DoesNotRoundDoubles) {
  Communicator& comm = test::world();
  for (const int group : divisions_of(comm)) {
    Hosts hosts(comm, group);
    if (hosts.sums.wire() != nullptr) hosts.sums.wire()->use(WireType::int8, {{1, WireWay::two_shot}});
    const std::vector<double> data(100'000, static_cast<double>(comm.rank()) + 0.125);
    std::vector<float> sum(data.size());
    hosts.sums(std::span<const double>(data), {sum.data(), false});
    double expected = 0.0;
    for (std::size_t rank = 0; rank < comm.size(); ++rank) expected += static_cast<double>(rank) + 0.125;
    EXPECT_EQ(sum, std::vector<float>(data.size(), static_cast<float>(expected)));
  }
}

TEST(WireAllReduce, CountsSentBytes) {
  Communicator& comm = test::world();
  Hosts hosts(comm, static_cast<int>(comm.rank()));
  if (hosts.sums.wire() == nullptr) GTEST_SKIP() << "one rank";
  const std::size_t others = comm.size() - 1;
  std::vector<float> data(65536);
  hosts.sums.wire()->use(WireType::int8, {{1, WireWay::one_shot}});
  hosts.sums(std::span<const float>(data), {data.data(), false});
  const CommCounter count = hosts.sums.wire()->take_count();
  EXPECT_EQ(count.calls, 1U);
  EXPECT_EQ(count.bytes, others * wire_bytes(WireType::int8, data.size()));
  EXPECT_EQ(hosts.sums.wire()->take_count().calls, 0U);
}

TEST(ChooseWireWays, CoversEverySizeAndIsTheSameOnAllHosts) {
  Communicator& comm = test::world();
  Hosts hosts(comm, static_cast<int>(comm.rank()));
  if (hosts.sums.wire() == nullptr) GTEST_SKIP() << "one rank";
  hosts.sums.prepare_wire(WireType::bf16);
  EXPECT_EQ(hosts.sums.wire()->type(), WireType::bf16);
  std::vector<std::size_t> ways(16);  // every rank has the same number of ways
  const std::vector<WireChoice>& choices = hosts.sums.wire()->choices();
  ASSERT_LE(choices.size(), ways.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    ways[i] = 3 * choices[i].bytes + static_cast<std::size_t>(choices[i].way);
    if (i > 0) {
      EXPECT_GT(choices[i].bytes, choices[i - 1].bytes);
    }
  }
  const std::vector<std::size_t> all = exchange_values(comm, std::span<const std::size_t>(ways));
  for (std::size_t rank = 0; rank < comm.size(); ++rank)
    EXPECT_EQ(std::vector<std::size_t>(all.begin() + static_cast<std::ptrdiff_t>(rank * ways.size()),
                                       all.begin() + static_cast<std::ptrdiff_t>((rank + 1) * ways.size())),
              ways);
}

TEST(PrepareWire, RefusesToRoundWhereEachRankSendsItsAddend) {
  Communicator& comm = test::world();
  if (comm.size() < 3) GTEST_SKIP() << "two hosts, one with two ranks";
  const test::EnvironmentVariable variable("TP_ALL_REDUCE", "messages");
  Hosts hosts(comm, comm.rank() == 0 ? 1 : 0);
  hosts.sums.prepare_wire(WireType::f32);
  EXPECT_EQ(test::error_of<ConfigError>([&] { hosts.sums.prepare_wire(WireType::int8); }),
            "cannot send int8 between hosts: expected shared memory within each host, found none "
            "(TP_ALL_REDUCE=messages); make /dev/shm larger, or use the wire type f32");
}

}  // namespace
}  // namespace tp

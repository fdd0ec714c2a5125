#include "parallel/machine/host_cores.h"

#include <set>

#include <gtest/gtest.h>

namespace tp {
namespace {

// A synthetic machine of hwloc: "pack:2 numa:1 core:4 pu:2".
class Machine {
 public:
  explicit Machine(const char* description) {
    hwloc_topology_init(&topology_);
    hwloc_topology_set_synthetic(topology_, description);
    hwloc_topology_load(topology_);
  }
  ~Machine() { hwloc_topology_destroy(topology_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Returns the machine's cores, or the cores in a list of processors such as "0-3,7".
  std::vector<NumaDomain> domains(const char* processors = nullptr) const {
    const ProcessorSet set(hwloc_bitmap_dup(hwloc_topology_get_topology_cpuset(topology_)));
    if (processors != nullptr) hwloc_bitmap_list_sscanf(set.get(), processors);
    return numa_domains(topology_, set.get());
  }

 private:
  hwloc_topology_t topology_ = nullptr;
};

std::vector<std::size_t> sizes(const std::vector<NumaDomain>& domains) {
  std::vector<std::size_t> sizes;
  for (const NumaDomain& domain : domains) sizes.push_back(domain.size());
  return sizes;
}

// Returns how many cores of each domain a rank gets.
std::vector<std::size_t> cores_by_domain(const std::vector<NumaDomain>& domains, TpRank tp) {
  const std::vector<Core> share = share_of_cores(domains, tp);
  const std::set<Core> mine(share.begin(), share.end());
  std::vector<std::size_t> counts;
  for (const NumaDomain& domain : domains) {
    counts.push_back(0);
    for (const Core& core : domain) counts.back() += mine.count(core);
  }
  return counts;
}

using Counts = std::vector<std::size_t>;

TEST(HostCores, AreCountedWithoutTheirSecondThreads) {
  const Machine machine("numa:2 core:8 pu:2");
  EXPECT_EQ(sizes(machine.domains()), Counts({8, 8}));
  EXPECT_EQ(count_cores(machine.domains()), 16U);
  EXPECT_EQ(machine.domains()[1][0], Core({16, 17}));
}

TEST(HostCores, IncludeCoresWithAnAllowedProcessor) {
  const Machine machine("numa:2 core:8 pu:2");
  EXPECT_EQ(machine.domains("1-4"), std::vector<NumaDomain>({{{1}, {2, 3}, {4}}}));
  EXPECT_EQ(sizes(machine.domains("14-18")), Counts({1, 2}));
}

TEST(HostCores, AreProcessorsWhereAMachineHidesItsCores) {
  EXPECT_EQ(sizes(Machine("numa:1 pu:6").domains()), Counts({6}));
}

TEST(ShareOfCores, IsTheWholeHostForOneRank) {
  EXPECT_EQ(cores_by_domain(Machine("numa:2 core:8 pu:2").domains(), {0, 1}), Counts({8, 8}));
}

TEST(ShareOfCores, IsOneDomainIfRanksEqualDomains) {
  const auto domains = Machine("pack:2 numa:2 core:4 pu:2").domains();
  for (std::size_t rank = 0; rank < 4; ++rank) {
    Counts expected(4, 0);
    expected[rank] = 4;
    EXPECT_EQ(cores_by_domain(domains, {rank, 4}), expected);
  }
}

TEST(ShareOfCores, IsNeighbouringWholeDomainsForFewRanks) {
  const auto domains = Machine("pack:2 numa:2 core:4 pu:2").domains();
  EXPECT_EQ(cores_by_domain(domains, {0, 2}), Counts({4, 4, 0, 0}));
  EXPECT_EQ(cores_by_domain(domains, {1, 2}), Counts({0, 0, 4, 4}));
}

TEST(ShareOfCores, IsWithinOneDomainIfPossibleForManyRanks) {
  const auto domains = Machine("numa:2 core:8 pu:2").domains();
  EXPECT_EQ(cores_by_domain(domains, {0, 3}), Counts({5, 0}));
  EXPECT_EQ(cores_by_domain(domains, {1, 3}), Counts({0, 5}));
  EXPECT_EQ(cores_by_domain(domains, {2, 3}), Counts({3, 2}));
}

TEST(ShareOfCores, LeaveNoCoreToTwoRanksAndAreEqual) {
  for (const char* description : {"numa:2 core:8 pu:2", "pack:2 numa:4 core:3 pu:1", "numa:1 core:7 pu:2"}) {
    const auto domains = Machine(description).domains();
    for (std::size_t ranks = 1; ranks <= count_cores(domains); ++ranks) {
      std::set<Core> taken;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::vector<Core> share = share_of_cores(domains, {rank, ranks});
        EXPECT_EQ(share.size(), count_cores(domains) / ranks);
        for (const Core& core : share) EXPECT_TRUE(taken.insert(core).second) << description << ", " << ranks;
      }
    }
  }
}

TEST(ShareOfCores, IsEmptyIfRanksExceedCores) {
  EXPECT_TRUE(share_of_cores(Machine("numa:1 core:2 pu:2").domains(), {0, 3}).empty());
}

}  // namespace
}  // namespace tp

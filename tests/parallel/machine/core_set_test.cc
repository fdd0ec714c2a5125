#include "parallel/machine/core_set.h"

#include "parallel/machine/host_cores.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using Masks = std::vector<std::string>;

// Returns the cores of ranks with masks such as "0-3,7", on a synthetic machine of hwloc.
std::vector<CoreSet> core_sets(const char* machine, const Masks& masks) {
  hwloc_topology_t topology = nullptr;
  hwloc_topology_init(&topology);
  hwloc_topology_set_synthetic(topology, machine);
  hwloc_topology_load(topology);
  std::vector<CoreSet> sets;
  for (const std::string& mask : masks) {
    const ProcessorSet processors(hwloc_bitmap_alloc());
    hwloc_bitmap_list_sscanf(processors.get(), mask.c_str());
    sets.push_back(cores_of(topology, processors.get()));
  }
  hwloc_topology_destroy(topology);
  return sets;
}

TEST(FairShare, DividesEachCoreAmongTheRanksThatMayUseIt) {
  const char* const two_sockets = "pack:2 numa:1 core:8 pu:1";
  const char* const with_threads = "pack:1 numa:1 core:4 pu:2";
  struct Row {
    const char* what;
    const char* machine;
    Masks masks;  // one per rank
    std::vector<std::size_t> shares;
  };
  const std::vector<Row> rows = {
      {"--bind-to none", two_sockets, Masks(4, "0-15"), {4, 4, 4, 4}},
      {"numactl -N 0", two_sockets, Masks(4, "0-7"), {2, 2, 2, 2}},
      {"taskset with two cores", two_sockets, Masks(4, "0-1"), {0, 0, 0, 0}},
      {"taskset with three cores, three ranks", two_sockets, Masks(3, "0-2"), {1, 1, 1}},
      {"--bind-to socket", two_sockets, {"0-7", "0-7", "8-15", "8-15"}, {4, 4, 4, 4}},
      {"three ranks on two sockets", two_sockets, {"0-7", "8-15", "0-7"}, {4, 8, 4}},
      {"--bind-to core", two_sockets, {"0", "1", "2", "3"}, {1, 1, 1, 1}},
      {"masks that overlap", two_sockets, {"0-1", "1-2", "2-3"}, {1, 1, 1}},
      {"one rank within another's mask", two_sockets, {"0-7", "0-1"}, {7, 1}},
      {"cores that are not divisible", two_sockets, Masks(3, "0-15"), {5, 5, 5}},
      {"all threads of four cores", with_threads, Masks(2, "0-7"), {2, 2}},
      {"first threads of four cores", with_threads, Masks(2, "0,2,4,6"), {2, 2}},
      {"--bind-to hwthread", with_threads, {"0", "1"}, {0, 0}},
      {"a rank alone", with_threads, {"0-7"}, {4}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const std::vector<CoreSet> sets = core_sets(row.machine, row.masks);
    for (std::size_t rank = 0; rank < sets.size(); ++rank)
      EXPECT_EQ(fair_share(sets, rank), row.shares[rank]) << "rank " << rank;
  }
}

TEST(RanksThatShare, HaveACommonCore) {
  const std::vector<CoreSet> sets = core_sets("pack:1 core:4 pu:2", {"0-3", "3-5", "6-7"});
  EXPECT_EQ(ranks_that_share(sets, 0), std::vector<std::size_t>({0, 1}));
  EXPECT_EQ(united(sets, ranks_that_share(sets, 0)).count(), 3U);
  EXPECT_EQ(ranks_that_share(sets, 2), std::vector<std::size_t>({2}));
}

}  // namespace
}  // namespace tp

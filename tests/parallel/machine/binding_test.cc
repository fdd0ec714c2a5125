#include "parallel/machine/binding.h"

#include "parallel/machine/launcher.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

// Two sockets of four cores with two threads each.
class WiderBinding : public testing::Test {
 protected:
  WiderBinding() {
    hwloc_topology_init(&topology_);
    hwloc_topology_set_synthetic(topology_, "pack:2 numa:1 core:4 pu:2");
    hwloc_topology_load(topology_);
  }
  ~WiderBinding() override { hwloc_topology_destroy(topology_); }

  // Returns the cores for rank `tp`, which is bound to some processors by a launcher that may use others.
  // Both lists have the form "0-3,7".
  std::vector<Core> wider(const char* bound, const char* available, TpRank tp) const {
    const ProcessorSet bound_set(hwloc_bitmap_alloc());
    const ProcessorSet available_set(hwloc_bitmap_alloc());
    hwloc_bitmap_list_sscanf(bound_set.get(), bound);
    hwloc_bitmap_list_sscanf(available_set.get(), available);
    return wider_binding(topology_, bound_set.get(), available_set.get(), tp);
  }

 private:
  hwloc_topology_t topology_ = nullptr;
};

TEST_F(WiderBinding, GivesTheSecondOfTwoRanksTheSecondSocketAlthoughItsCoreIsInTheFirst) {
  EXPECT_EQ(wider("2-3", "0-15", {1, 2}), std::vector<Core>({{8, 9}, {10, 11}, {12, 13}, {14, 15}}));
}

TEST_F(WiderBinding, IsEmptyIfTheRankHasItsShare) {
  EXPECT_TRUE(wider("0-3", "0-15", {0, 4}).empty());
  EXPECT_TRUE(wider("0-7", "0-15", {0, 4}).empty());
}

TEST_F(WiderBinding, CountsCoresAndNotTheirThreads) {
  EXPECT_TRUE(wider("0-7", "0-15", {0, 2}).empty()) << "four cores of eight";
  EXPECT_EQ(wider("0,1", "0-3", {0, 1}).size(), 2U) << "two threads of one core";
}

TEST_F(WiderBinding, StaysWithinTheLaunchersCores) {
  EXPECT_EQ(wider("4-5", "4-7", {0, 1}), std::vector<Core>({{4, 5}, {6, 7}}));
}

TEST(FirstCount, IsTheNumberOfTheFirstHostInSlurmsList) {
  EXPECT_EQ(first_count("64"), 64U);
  EXPECT_EQ(first_count("64(x2),32"), 64U);
  EXPECT_EQ(first_count(""), 0U);
}

TEST(ChoosesProcessors, IsTrueForBindingAndMappingToPartsOfAHost) {
  for (const char* variable :
       {"OMPI_MCA_hwloc_base_binding_policy=none", "OMPI_MCA_hwloc_base_cpu_list=0,1",
        "OMPI_MCA_orte_rankfile=ranks", "OMPI_MCA_rmaps_base_mapping_policy=slot:PE=2",
        "OMPI_MCA_rmaps_base_mapping_policy=ppr:1:socket", "OMPI_MCA_rmaps_base_mapping_policy=core",
        "OMPI_MCA_rmaps_base_cpus_per_rank=2", "OMPI_MCA_rmaps_ppr_n_persocket=1",
        "PRTE_MCA_hwloc_default_binding_policy=core", "PRTE_MCA_rmaps_default_mapping_policy=package"})
    EXPECT_TRUE(chooses_processors(variable)) << variable;
}

TEST(ChoosesProcessors, IsFalseForMappingToHostsAndCountingThreads) {
  for (const char* variable :
       {"OMPI_MCA_rmaps_base_mapping_policy=node", "OMPI_MCA_rmaps_base_mapping_policy=slot",
        "OMPI_MCA_rmaps_base_mapping_policy=ppr:1:node", "OMPI_MCA_rmaps_ppr_n_pernode=1",
        "OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_orte_bound_at_launch=1", "OMP_NUM_THREADS=4",
        "OMP_PROC_BIND=false", "PATH=/usr/bin", "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe",
        "PRTE_LAUNCHED=1"})
    EXPECT_FALSE(chooses_processors(variable)) << variable;
}

TEST(ChoosesProcessors, ReadsTheOptionsOfOpenMpi5) {
  using Words = std::vector<std::string>;
  for (const Words& options :
       {Words{"-np", "2", "--bind-to", "none"}, Words{"--map-by", "slot:PE=2"},
        Words{"--map-by", "ppr:1:package"}, Words{"--cpu-set", "0,1", "-np", "2"},
        Words{"--rankfile", "ranks"}, Words{"--mca", "hwloc_base_binding_policy", "core"},
        Words{"--prtemca", "hwloc_default_binding_policy", "core"}})
    EXPECT_TRUE(options_choose_processors(options)) << fmt::format("{}", fmt::join(options, " "));
  for (const Words& options : {Words{}, Words{"-np", "2", "--oversubscribe"}, Words{"--map-by", "node"},
                               Words{"--map-by", ":oversubscribe"}, Words{"--host", "a,b"},
                               Words{"--mca", "btl", "^tcp"}, Words{"--prtemca"}})
    EXPECT_FALSE(options_choose_processors(options)) << fmt::format("{}", fmt::join(options, " "));
}

TEST(OptionsBefore, AreOnlyTheLaunchersOptions) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(
      options_before("tp-infer", {"prterun", "-np", "2", "build/bin/tp-infer", "generate", "--output", "x"}),
      (Words{"-np", "2"}));
  EXPECT_EQ(options_before("tp-infer", {"prterun", "-np", "2", "sh", "start.sh"}),
            (Words{"-np", "2", "sh", "start.sh"}));
  EXPECT_EQ(options_before("tmp", {"prterun", "--wdir", "/tmp", "-np", "2", "bin/tmp"}),
            (Words{"--wdir", "/tmp", "-np", "2"}));
  EXPECT_EQ(options_before("tp-infer", {}), Words{});
}

}  // namespace
}  // namespace tp

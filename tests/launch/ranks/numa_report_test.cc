// Reports on NUMA nodes, for machines with several nodes and for this machine.
#include "launch/ranks/numa_report.h"

#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

// Returns a rank on a host with two nodes, with cores on one node and this many pages of weights on each.
RankReport rank_on(std::size_t node, std::uint32_t weights_on_0, std::uint32_t weights_on_1) {
  RankReport report;
  std::strcpy(report.host, "box");
  report.numa.nodes = 2;
  report.numa.core_nodes = std::uint64_t{1} << node;
  report.numa.pages_known = 1;
  report.numa.weights.on_node[0] = weights_on_0;
  report.numa.weights.on_node[1] = weights_on_1;
  return report;
}

TEST(NumaReport, HasARowForEachRankAndColumnsForMemoryWithPages) {
  const std::vector<RankReport> reports = {rank_on(0, 975, 25), rank_on(1, 0, 1000)};
  EXPECT_EQ(numa_text(reports),
            "rank  NUMA nodes of cores           of weights  remote\n"
            "   0                    0  0: 97.5 %, 1: 2.5 %   2.5 %\n"
            "   1                    1                    1   0.0 %\n");
}

TEST(NumaReport, HasTheCacheAndTheWindowWhenTheyHavePages) {
  std::vector<RankReport> reports = {rank_on(0, 10, 0), rank_on(1, 0, 10)};
  reports[0].numa.cache.on_node[1] = 3;
  reports[1].numa.window.on_node[1] = 3;
  EXPECT_EQ(numa_text(reports),
            "rank  NUMA nodes of cores  of weights  remote  of cache   remote  of window  remote\n"
            "   0                    0           0   0.0 %         1  100.0 %          -       -\n"
            "   1                    1           1   0.0 %         -        -          1   0.0 %\n");
  EXPECT_EQ(numa_text(reports, {kNumaCache}),
            "rank  NUMA nodes of cores  of cache   remote\n"
            "   0                    0         1  100.0 %\n"
            "   1                    1         -        -\n");
}

TEST(NumaReport, WarnsOfEachRankWithMoreThanFivePercentRemote) {
  std::vector<RankReport> reports = {rank_on(0, 95, 5), rank_on(1, 51, 949)};
  reports[1].numa.cache.on_node[0] = 1;
  EXPECT_EQ(numa_warnings(reports, {kNumaWeights}).size(), 1U);
  const std::vector<std::string> warnings = numa_warnings(reports);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0],
            "tp-infer: rank 1 on box: expected its memory on NUMA node 1, where its cores are, found 5.1 % "
            "of its weights and 100.0 % of its cache on other nodes; bind every rank to one node (mpirun "
            "--map-by ppr:1:numa --bind-to numa), or if it is bound, free memory on that node");
  EXPECT_TRUE(numa_warnings(reports, {kNumaWindow}).empty());
}

TEST(NumaReport, IsOneLineWithoutWarningsIfMachinesHaveOneNode) {
  std::vector<RankReport> reports = {rank_on(0, 10, 0), rank_on(1, 10, 0)};
  for (RankReport& report : reports) report.numa.nodes = 1;
  EXPECT_EQ(numa_text(reports), "this machine has one NUMA node\n");
  EXPECT_TRUE(numa_warnings(reports).empty());
  EXPECT_EQ(numa_json(reports[1].numa), json({{"numa_nodes", 1}}));
  std::strcpy(reports[1].host, "other");
  EXPECT_EQ(numa_text(reports), "every host has one NUMA node\n");
}

TEST(NumaReport, ReportsUnknownValues) {
  std::vector<RankReport> reports = {rank_on(0, 0, 0)};
  reports[0].numa.pages_known = 0;
  EXPECT_EQ(
      numa_text(reports),
      "rank  NUMA nodes of cores\n"
      "   0                    0\n"
      "where pages lie is not known of every rank: its kernel or sandbox refuses move_pages (Docker allows "
      "it with --cap-add SYS_NICE)\n");
  EXPECT_TRUE(numa_warnings(reports).empty());
  reports[0].numa.nodes = 0;
  EXPECT_CONTAINS(numa_text(reports), "NUMA nodes are unknown: ");
  EXPECT_EQ(numa_json(reports[0].numa), json({{"numa_nodes", nullptr}}));
}

TEST(NumaReport, InJsonHasSharesByNode) {
  RankReport report = rank_on(1, 25, 975);
  report.numa.window.on_node[1] = 7;
  EXPECT_EQ(numa_json(report.numa),
            json({{"numa_nodes", 2},
                  {"numa",
                   {{"core_nodes", {1}},
                    {"weights", {{"shares", {{"0", 0.025}, {"1", 0.975}}}, {"remote_share", 0.025}}},
                    {"cache", nullptr},
                    {"window", {{"shares", {{"1", 1.0}}}, {"remote_share", 0.0}}}}}}));
}

bool has_one_node() {
  return std::filesystem::exists("/sys/devices/system/node/node0") &&
         !std::filesystem::exists("/sys/devices/system/node/node1");
}

TEST(OneNumaNode, IsReportedInOneLine) {
  if (!has_one_node()) GTEST_SKIP() << "this machine has several NUMA nodes, or does not tell";
  const TextModel model;
  for (const std::size_t ranks : {kNoMpirun, std::size_t{2}}) {
    const Finished finished =
        run(ranks, {"generate", "--model", model.path(), "--prompt", "Hi", "--max-tokens", "4", "--verbose"});
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_CONTAINS(finished.err, "\nthis machine has one NUMA node\n");
    EXPECT_EQ(count_of(finished.err, "NUMA"), 1U) << finished.err;
    EXPECT_EQ(count_of(finished.err, "remote"), 0U) << finished.err;
    const Finished quiet =
        run(ranks, {"generate", "--model", model.path(), "--prompt", "Hi", "--max-tokens", "4"});
    EXPECT_EQ(count_of(quiet.err, "NUMA"), 0U) << quiet.err;
  }
}

TEST(OneNumaNode, IsBenchsOnlyLineAboutNodes) {
  if (!has_one_node()) GTEST_SKIP() << "this machine has several NUMA nodes, or does not tell";
  const std::string config = (fixture_folder("llama-gqa") / "config.json").string();
  const Arguments arguments = {"bench", "--synthetic", config, "--prompt", "8", "--generate", "2"};
  const Finished finished = run(2, arguments);
  expect_success(finished);
  EXPECT_TRUE(finished.out.ends_with("\nthis machine has one NUMA node\n")) << finished.out;
  EXPECT_EQ(count_of(finished.out, "NUMA"), 1U) << finished.out;
  Arguments as_json = arguments;
  as_json.emplace_back("--json");
  const Finished objects = run(2, as_json);
  expect_success(objects);
  for (const json& row : json_lines(objects.out)) {
    for (const json& rank : row.at("per_rank")) {
      EXPECT_EQ(rank.at("numa_nodes"), 1);
      EXPECT_FALSE(rank.contains("numa"));
    }
  }
}

}  // namespace
}  // namespace tp::test

// The groups of ranks: stages and hosts.
#include "parallel/exchange/topology.h"

#include "parallel/exchange/collectives.h"
#include "parallel/exchange/placement.h"
#include "parallel/exchange/tracer.h"
#include "tests/error_of.h"
#include "tests/mpi_test.h"
#include "tp/error.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using Groups = std::vector<std::vector<std::size_t>>;

Placement ranks_on(const Groups& hosts) {
  Placement placement;
  placement.hosts = hosts;
  std::size_t ranks = 0;
  for (const std::vector<std::size_t>& host : hosts) ranks += host.size();
  placement.host_of.resize(ranks);
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (const std::size_t rank : hosts[host]) placement.host_of[rank] = host;
  }
  for (std::size_t rank = 0; rank < ranks; ++rank)
    placement.processes.push_back(
        {static_cast<std::int64_t>(100 + rank), fmt::format("node{}", placement.host_of[rank]), rank});
  return placement;
}

TEST(DivideIntoStages, GivesEachHostsRanksToOneStage) {
  EXPECT_EQ(divide_into_stages(ranks_on({{0, 1}, {2, 3}}), 2), (Groups{{0, 1}, {2, 3}}));
  // mpirun --map-by node numbers ranks like this.
  EXPECT_EQ(divide_into_stages(ranks_on({{0, 2}, {1, 3}}), 2), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(divide_into_stages(ranks_on({{0, 1}, {2, 3}}), 4), (Groups{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(divide_into_stages(ranks_on({{0, 1}, {2, 3}}), 1), (Groups{{0, 1, 2, 3}}));
}

TEST(DivideIntoStages, RefusesStagesOfDifferentSizes) {
  for (const std::size_t stages : {std::size_t{0}, std::size_t{3}, std::size_t{8}}) {
    EXPECT_EQ(
        test::error_of<ConfigError>([&] {
          divide_into_stages(ranks_on({{0, 1, 2, 3}}), stages);
        }),
        fmt::format("cannot divide 4 ranks into {} pipeline stages: expected a number of stages that divides "
                    "the ranks evenly; choose another, or start other ranks",
                    stages))
        << stages;
  }
}

TEST(Placement, OfAGroupKeepsTheJobsHostsAndNumbers) {
  Placement world = ranks_on({{0, 2, 4}, {1, 3, 5}});
  world.rank = 3;
  const std::vector<std::size_t> ranks = {4, 3, 0};
  const Placement group = world.restricted_to(ranks);
  EXPECT_EQ(group.rank, 1U);
  EXPECT_EQ(group.hosts, (Groups{{0, 2}, {1}}));
  EXPECT_EQ(group.host_of, (std::vector<std::size_t>{0, 1, 0}));
  EXPECT_EQ(group.processes[0].rank, 4U);
  EXPECT_EQ(group.processes[1].host, "node1");
}

TEST(Topology, WithOneStageIsTheWorld) {
  Communicator& world = test::world();
  Topology topology(world);
  EXPECT_EQ(&topology.tensor(), &world);
  EXPECT_EQ(topology.place().tensor.rank, world.rank());
  EXPECT_EQ(topology.place().tensor.size, world.size());
  EXPECT_TRUE(topology.place().stage.is_whole());
}

TEST(Topology, SumsWithinAStage) {
  Communicator& world = test::world();
  for (std::size_t stages = 1; stages <= world.size(); ++stages) {
    if (world.size() % stages != 0) continue;
    Topology topology(world, stages);
    const Place place = topology.place();
    const std::size_t size = world.size() / stages;
    ASSERT_EQ(place.stage.count, stages);
    EXPECT_EQ(place.stage.index, world.rank() / size);
    EXPECT_EQ(topology.stage(place.stage.index)[place.tensor.rank], world.rank());

    ASSERT_EQ(topology.tensor().size(), size);
    std::vector<float> data(1000, static_cast<float>(world.rank()));
    all_reduce(topology.tensor(), PartialSum(TensorView<float>(data.data(), 1, data.size())));
    float expected = 0.0F;
    for (const std::size_t rank : topology.stage(place.stage.index)) expected += static_cast<float>(rank);
    EXPECT_EQ(data, std::vector<float>(1000, expected)) << stages;
  }
}

TEST(Topology, RecordsIntoTheTraceOfTheWorld) {
  Communicator& world = test::world();
  Topology topology(world, world.size());
  EXPECT_EQ(&topology.tensor().tracer(), &world.tracer());
}

}  // namespace
}  // namespace tp

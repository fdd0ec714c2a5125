// An engine allocates exactly the memory that its footprint predicts for each rank.
#include "runtime/setup/footprint.h"

#include "model/config/architectures.h"
#include "runtime/setup/engine_setup.h"
#include "tests/reference/fixture.h"
#include "tests/reference/name_of_fixture.h"
#include "tests/runtime/engine/cached_fixtures.h"
#include "tests/runtime/store/store_run.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <omp.h>

namespace tp {
namespace {

class FootprintOfFamily : public testing::TestWithParam<reference::Fixture> {};

// Plans like `inspect`, with all ranks on one host, and compares the footprint with the engine's memory.
void expect_memory(Engine& engine, const EngineOptions& options, std::size_t ranks) {
  EnginePlan plan = make_plan(options, ranks);
  share_caches(plan, std::vector<std::uint64_t>(ranks, 0));
  const ModelSpec spec = plan.spec();
  const std::unique_ptr<WeightSource> source = open_weights(plan);
  const std::size_t blocks = plan.cache_shape(plan.cache_groups(spec)).blocks_for(options.cache_tokens);
  omp_set_num_threads(1);  // like run_engine
  const Footprint footprint(spec, plan, *source, blocks);
  const std::vector<RankReport> reports = engine.reports();
  ASSERT_EQ(reports.size(), ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const MemoryNeed need = footprint.of(plan.tp(rank));
    EXPECT_EQ(need.weights, reports[rank].weight_bytes) << "rank " << rank;
    EXPECT_EQ(blocks * need.cache_block + need.states, reports[rank].cache_bytes) << "rank " << rank;
    EXPECT_EQ(need.workspace, reports[rank].workspace_bytes) << "rank " << rank;
  }
}

TEST_P(FootprintOfFamily, IsTheMemoryOfAnEngineOnAnyRanksWithSlicesAndWithout) {
  for (std::size_t ranks : test::rank_counts()) {
    for (const bool slices : {true, false}) {
      // 64 and 224 tokens are 2 and 7 blocks, which do not divide evenly among the ranks.
      for (const std::size_t tokens : {64, 224}) {
        SCOPED_TRACE(testing::Message()
                     << ranks << " ranks, slices " << slices << ", " << tokens << " tokens");
        const EngineOptions options{.model = GetParam().folder,
                                    .kv_type = KvType::f32,
                                    .kv_slices = slices,
                                    .prefill_chunk = 32,
                                    .max_sequences = 1,
                                    .max_length = 64,
                                    .cache_tokens = tokens};
        test::on_ranks(ranks, options, [&](Engine& engine) { expect_memory(engine, options, ranks); });
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Fixtures, FootprintOfFamily,
    testing::ValuesIn(test::fixtures_with_cache(reference::fixtures_of(supported_architectures()))),
    reference::name_of_fixture);

}  // namespace
}  // namespace tp

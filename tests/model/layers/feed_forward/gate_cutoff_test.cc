// MLPs whose gates have a cutoff, over ranks.
#include "model/layers/feed_forward/mlp.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "parallel/exchange/collectives.h"
#include "tests/mpi_test.h"
#include "tests/reference/random.h"
#include "tp/mpi.h"

#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Random;
using reference::RandomTensor;

constexpr std::size_t kTokens = 5;
constexpr std::size_t kMlpInput = 24;
constexpr std::size_t kLeafHeads = 4;  // heads of the model, which determine leaves

BlockNames mlp_names() {
  BlockNames names;
  names.gate_proj = "gate";
  names.up_proj = "up";
  names.down_proj = "down";
  return names;
}

GatedMlpSpec mlp_spec(std::size_t width) {
  return {.intermediate_size = width, .activation = Activation::gelu_tanh, .gate_cutoff = 0.5F};
}

// Returns the sum over the ranks of `comm`. leaf_heads: 0 without same bits.
std::vector<float> output(Communicator& comm, const WeightSource& source, const GatedMlpSpec& spec,
                          TensorView<const float> x, std::size_t leaf_heads) {
  WeightLoader loader(source, {comm.rank(), comm.size()}, WeightType::f32, {}, WeightLoader::Mode::weights,
                      leaf_heads);
  const GatedMlp mlp(loader, spec, kMlpInput, mlp_names());
  Workspace workspace(100000);
  const Batch batch;
  const StepContext step{.batch = batch, .workspace = workspace, .comm = &comm};
  std::vector<float> sum(kTokens * kMlpInput);
  all_reduce(comm, mlp(x, step), {sum.data(), kTokens, kMlpInput});
  return sum;
}

// Widths that divide evenly among the ranks, and other widths.
TEST(GateCutoff, EqualsTheCutoffOfAllColumnsOnAnyNumberOfRanks) {
  Communicator& comm = test::world();
  Communicator self(MPI_COMM_SELF);
  const SyntheticWeights source(DType::f32, 5);
  for (const std::size_t width : {64U, 75U}) {
    Random random(width);
    const RandomTensor x(random, kTokens, kMlpInput);
    const std::vector<float> whole = output(self, source, mlp_spec(width), x.view(), 0);
    const std::vector<float> sum = output(comm, source, mlp_spec(width), x.view(), 0);
    for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], whole[i], 2e-6);
    EXPECT_EQ(output(comm, source, mlp_spec(width), x.view(), kLeafHeads),
              output(self, source, mlp_spec(width), x.view(), kLeafHeads))
        << "the same bits";
    GatedMlpSpec without = mlp_spec(width);
    without.gate_cutoff.reset();
    EXPECT_NE(output(self, source, without, x.view(), 0), whole);
  }
}

TEST(GateCutoff, IsOneSmallAllReduce) {
  Communicator& comm = test::world();
  const SyntheticWeights source(DType::f32, 6);
  const std::vector<float> values(kTokens * kMlpInput, 1.0F);
  const auto before = comm.stats().all_reduce;
  output(comm, source, mlp_spec(64), {values.data(), kTokens, kMlpInput}, 0);
  EXPECT_EQ(comm.stats().all_reduce.calls - before.calls, 2U);
  EXPECT_EQ(comm.stats().all_reduce.bytes - before.bytes,
            kTokens * (2 * sizeof(double) + kMlpInput * sizeof(float)));
}

// `plan` counts the cutoff's all-reduce in a step without weights.
TEST(GateCutoff, IsCountedInStepsOfShapes) {
  const SyntheticWeights source(DType::f32, 6);
  WeightLoader loader(source, {0, 2}, WeightType::f32, {}, WeightLoader::Mode::shapes);
  const GatedMlp mlp(loader, mlp_spec(64), kMlpInput, mlp_names());
  Workspace workspace = Workspace::counting();
  const Batch batch;
  SumTally tally;
  const StepContext step{.batch = batch, .workspace = workspace, .tally = &tally};
  const PartialSum sum = mlp({nullptr, kTokens, kMlpInput}, step);
  EXPECT_EQ(sum.bytes(), kTokens * kMlpInput * sizeof(float));
  EXPECT_EQ(tally.sums, 1U);
  EXPECT_EQ(tally.bytes, kTokens * 2 * sizeof(double));
}

}  // namespace
}  // namespace tp

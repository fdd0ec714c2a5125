// The norms of EAGLE 3.1, which no fixture has: the projection of a drafter's streams, compared with plain
// loops.
#include "model/layers/stream_projection.h"

#include "parallel/exchange/collectives.h"
#include "tests/model/weights/memory_weights.h"
#include "tests/mpi_test.h"
#include "tests/reference/random.h"

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr std::size_t kStreams = 3;
constexpr std::size_t kStreamSize = 20;
constexpr std::size_t kHidden = 12;
constexpr double kEps = 1e-2;

void norm(std::span<double> x, std::span<const float> gain) {
  double squares = 0.0;
  for (const double value : x) squares += value * value;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + kEps);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= scale * gain[i];
}

TEST(StreamProjection, NormsEachStreamOrAllOfThem) {
  constexpr std::size_t kSize = kStreams * kStreamSize;
  reference::Random random(4);
  const auto numbers = [&](std::size_t size) {
    std::vector<float> values;
    for (std::size_t i = 0; i < size; ++i) values.push_back(random.number());
    return values;
  };
  const std::vector<float> weight = numbers(kHidden * kSize);
  const std::vector<float> gains = numbers(kSize);  // gains of all streams; each stream has a part
  const std::vector<float> streams = numbers(kSize);
  test::MemoryWeights source;
  source.add("fc.weight", {kHidden, kSize}, weight);
  source.add("input_norm.weight", {1, kSize}, gains);
  for (std::size_t i = 0; i < kStreams; ++i) {
    const auto part = std::span(gains).subspan(i * kStreamSize, kStreamSize);
    source.add("fc_norm." + std::to_string(i) + ".weight", {1, kStreamSize}, {part.begin(), part.end()});
  }
  const DrafterNames names{.projection = "fc", .stream_norms = "fc_norm.", .all_streams_norm = "input_norm"};
  Communicator& comm = test::world();
  for (const int kind : {0, 1, 2}) {
    const DrafterSpec spec{.streams = kStreams,
                           .stream_size = kStreamSize,
                           .norm = {.eps = static_cast<float>(kEps)},
                           .norms_streams = kind == 1,
                           .norms_all_streams = kind == 2};
    WeightLoader loader(source, {comm.rank(), comm.size()}, WeightType::f32, {});
    const StreamProjection projection(loader, names, kHidden, spec);
    Batch batch;
    batch.tokens.resize(2);
    batch.states_before = {streams.data(), nullptr};
    Workspace workspace(10000);
    const StepContext step{.batch = batch, .workspace = workspace, .comm = &comm};
    const TensorView<float> found = all_reduce(comm, projection(step));
    std::vector<double> x(streams.begin(), streams.end());
    if (kind == 1)
      for (std::size_t i = 0; i < kStreams; ++i)
        norm(std::span(x).subspan(i * kStreamSize, kStreamSize),
             std::span(gains).subspan(i * kStreamSize, kStreamSize));
    if (kind == 2) norm(x, gains);
    for (std::size_t row = 0; row < kHidden; ++row) {
      double expected = 0.0;
      for (std::size_t i = 0; i < kSize; ++i) expected += x[i] * weight[row * kSize + i];
      EXPECT_NEAR(found(0, row), expected, 1e-4) << "kind " << kind;
      EXPECT_EQ(found(1, row), 0.0F) << "a missing state";
    }
  }
}

}  // namespace
}  // namespace tp

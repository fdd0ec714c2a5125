#include "model/layers/blocks/low_rank_connection.h"

#include "tests/model/kernels/expect_close.h"
#include "tests/model/weights/memory_weights.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Matrix;
using reference::Random;
using reference::RandomTensor;

constexpr std::size_t kStreams = 3;
constexpr std::size_t kSize = 10;
constexpr std::size_t kRank = 4;
constexpr std::size_t kTokens = 5;
constexpr double kTolerance = 4e-6;
constexpr LowRankConnectionSpec kSpec{
    .streams = kStreams, .rank = kRank, .norm = {.eps = 1e-3F, .gain_offset = 1.0F}};
const LowRankConnectionNames kNames{.norm = "norm", .down = "down", .up = "up", .inject = "inject"};

struct Weights {
  explicit Weights(Random& random)
      : gain(random, 1, kStreams * kSize),
        down(random, kRank, kStreams * kSize),
        up(random, kStreams * kSize, kRank),
        inject(random, kStreams, kStreams * kSize) {
    const auto add = [&](const char* name, const RandomTensor& tensor) {
      source.add(name, {tensor.view().rows(), tensor.view().columns()}, tensor.memory());
    };
    add("norm.weight", gain);
    add("down.weight", down);
    add("up.weight", up);
    add("inject.weight", inject);
  }

  RandomTensor gain;
  RandomTensor down;
  RandomTensor up;
  RandomTensor inject;
  test::MemoryWeights source;
};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// By the definition, in double precision: the mixed input, and the weights of the output.
struct Expected {
  Expected(const Weights& weights, TensorView<const float> streams)
      : input(streams.rows(), kSize), on_leave(streams.rows(), kStreams) {
    Matrix x(streams);
    for (std::size_t t = 0; t < x.rows; ++t) {
      for (std::size_t s = 0; s < kStreams; ++s) {
        double squares = 0.0;
        for (std::size_t i = 0; i < kSize; ++i) squares += x(t, s * kSize + i) * x(t, s * kSize + i);
        const double rms = std::sqrt(squares / kSize + double{kSpec.norm.eps});
        for (std::size_t i = s * kSize; i < (s + 1) * kSize; ++i)
          x(t, i) = x(t, i) / rms * (1.0 + double{weights.gain.view()(0, i)});
      }
    }
    Matrix low = reference::matmul(x, Matrix(weights.down.view()));
    for (double& z : low.values) z = z / kStreams * sigmoid(z / kStreams);
    const Matrix gates = reference::matmul(low, Matrix(weights.up.view()));
    const Matrix injected = reference::matmul(x, Matrix(weights.inject.view()));
    for (std::size_t t = 0; t < x.rows; ++t) {
      for (std::size_t i = 0; i < kStreams * kSize; ++i)
        input(t, i % kSize) += sigmoid(gates(t, i)) * x(t, i) / kStreams;
      for (std::size_t s = 0; s < kStreams; ++s) on_leave(t, s) = 2.0 * sigmoid(injected(t, s) / kStreams);
    }
  }

  Matrix input;
  Matrix on_leave;
};

class LowRankConnections : public testing::Test {
 protected:
  LowRankConnections()
      : random_(1), weights_(random_), streams_(random_, kTokens, kStreams * kSize, 3), workspace_(10000) {}

  LowRankConnection load(const LowRankConnectionNames& names) {
    WeightLoader loader(weights_.source, {0, 1}, WeightType::f32, {});
    return {loader, kSpec, kSize, names};
  }

  Random random_;
  Weights weights_;
  RandomTensor streams_;
  Workspace workspace_;
  Batch batch_;
};

TEST_F(LowRankConnections, MixAndInjectByTheirDefinition) {
  const LowRankConnection connection = load(kNames);
  const RandomTensor y(random_, kTokens, kSize);
  const Expected expected(weights_, streams_.view());
  Matrix after(streams_.view());
  for (std::size_t t = 0; t < kTokens; ++t) {
    for (std::size_t i = 0; i < kStreams * kSize; ++i)
      after(t, i) += expected.on_leave(t, i / kSize) * double{y.view()(t, i % kSize)};
  }
  const StepContext step{.batch = batch_, .workspace = workspace_};
  const LowRankConnection::Entered entered = connection.enter(streams_.view(), step);
  EXPECT_CLOSE(entered.input, expected.input, kTolerance);
  EXPECT_CLOSE(entered.on_leave, expected.on_leave, kTolerance);
  connection.leave(y.view(), entered, streams_.view());
  EXPECT_CLOSE(streams_.view(), after, kTolerance);
}

TEST_F(LowRankConnections, MixTheLastStateWithoutInjecting) {
  LowRankConnectionNames last = kNames;
  last.inject.clear();
  const LowRankConnection connection = load(last);
  const StepContext step{.batch = batch_, .workspace = workspace_};
  EXPECT_CLOSE(connection.mixed(streams_.view(), step), Expected(weights_, streams_.view()).input,
               kTolerance);
}

}  // namespace
}  // namespace tp

#include "model/layers/linear/head_norm.h"

#include "tests/model/kernels/expect_close.h"
#include "tests/model/weights/memory_weights.h"
#include "tests/mpi_test.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Matrix;
using reference::Random;
using reference::RandomTensor;

constexpr std::size_t kHeads = 8;
constexpr std::size_t kHeadDim = 6;
constexpr double kTolerance = 4e-6;  // as in the kernel's test
constexpr NormSpec kWithoutBias{.kind = NormSpec::Kind::layer, .eps = 1e-5F, .bias = false};

// Normalizes every head of `own` by itself, with its own gain.
Matrix normed_heads(const Matrix& x, const std::vector<float>& gains, Range own) {
  Matrix y = x;
  for (std::size_t head = own.begin; head < own.end; ++head) {
    const std::size_t first = (head - own.begin) * kHeadDim;
    Matrix one(x.rows, kHeadDim);
    for (std::size_t t = 0; t < x.rows; ++t) {
      for (std::size_t i = 0; i < kHeadDim; ++i) one(t, i) = x(t, first + i);
    }
    const auto begin = gains.begin() + static_cast<std::ptrdiff_t>(head * kHeadDim);
    const std::vector<double> gain(begin, begin + kHeadDim);
    const std::vector<double> bias(kHeadDim);
    const Matrix normed = reference::layer_norm(one, gain, bias, 1e-5);
    for (std::size_t t = 0; t < x.rows; ++t) {
      for (std::size_t i = 0; i < kHeadDim; ++i) y(t, first + i) = normed(t, i);
    }
  }
  return y;
}

class HeadNormOfOwnGains : public testing::TestWithParam<bool> {};

TEST_P(HeadNormOfOwnGains, NormsTheHeadsOfThisRankByTheirGains) {
  const TpRank tp{test::world().rank(), test::world().size()};
  const bool tensor_per_head = GetParam();
  Random random(1);
  const std::vector<float> gains = random.numbers(kHeads * kHeadDim);
  test::MemoryWeights source;
  if (tensor_per_head) {
    for (std::size_t head = 0; head < kHeads; ++head) {
      const auto begin = gains.begin() + static_cast<std::ptrdiff_t>(head * kHeadDim);
      source.add(fmt::format("norms.{}.weight", head), {1, kHeadDim}, {begin, begin + kHeadDim});
    }
  } else {
    source.add("norms.weight", {kHeads, kHeadDim}, gains);
  }
  WeightLoader loader(source, tp, WeightType::f32, {});
  const Range own = split_evenly(kHeads, tp);
  const HeadNorm norm(loader, "norms", {kHeads, kHeadDim}, kWithoutBias, own, tensor_per_head);
  const RandomTensor x(random, 5, own.size() * kHeadDim, 3);
  const Matrix expected = normed_heads(Matrix(x.view()), gains, own);
  norm.apply_in_place(x.view());
  EXPECT_CLOSE(x.view(), expected, kTolerance);
  EXPECT_EQ(loader.loaded().elements, gains.size());
}

INSTANTIATE_TEST_SUITE_P(Storage, HeadNormOfOwnGains, testing::Bool(),
                         [](const auto& info) { return info.param ? "TensorPerHead" : "OneMatrix"; });

TEST(HeadNorm, NormsAllHeadsByAGainThatTheyShare) {
  Random random(2);
  const std::vector<float> gain = random.numbers(kHeadDim);
  test::MemoryWeights source;
  source.add("norm.weight", {1, kHeadDim}, gain);
  WeightLoader loader(source, {0, 1}, WeightType::f32, {});
  const HeadNorm norm(loader, "norm", kHeadDim, kWithoutBias);
  std::vector<float> gains;
  for (std::size_t head = 0; head < kHeads; ++head) gains.insert(gains.end(), gain.begin(), gain.end());
  const RandomTensor x(random, 3, kHeads * kHeadDim);
  const Matrix expected = normed_heads(Matrix(x.view()), gains, {0, kHeads});
  norm.apply_in_place(x.view());
  EXPECT_CLOSE(x.view(), expected, kTolerance);
}

TEST(Norm, HasNoParametersIfTheSpecHasNone) {
  const test::MemoryWeights nothing;
  WeightLoader loader(nothing, {0, 1}, WeightType::f32, {});
  const Norm norm(loader, "absent", 16,
                  {.kind = NormSpec::Kind::layer, .eps = 1e-5F, .gain = false, .bias = false});
  Random random(3);
  const RandomTensor x(random, 3, 16);
  const std::vector<double> ones(16, 1.0);
  const std::vector<double> zeros(16);
  const Matrix expected = reference::layer_norm(Matrix(x.view()), ones, zeros, 1e-5);
  norm.apply_in_place(x.view());
  EXPECT_CLOSE(x.view(), expected, kTolerance);
  EXPECT_EQ(loader.loaded().elements, 0U);
}

}  // namespace
}  // namespace tp

#include "model/kernels/streams.h"

#include "model/kernels/gate_cutoff.h"
#include "tests/model/kernels/expect_close.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Matrix;
using reference::Random;
using reference::RandomTensor;

constexpr std::size_t kRows = 5;
constexpr double kFloatNoise = 2e-6;  // sums of a few products near 1

// Covers sizes below, at and above the number of elements that are mixed at a time.
TEST(Streams, AreMixedByTheirCoefficients) {
  for (const std::size_t size : {3U, 128U, 200U}) {
    for (const std::size_t count : {2U, 4U, 16U}) {
      Random random(size + count);
      const RandomTensor streams(random, kRows, count * size, 7);
      const RandomTensor coefficients(random, kRows, count * count, 3);
      Matrix expected(streams.view());
      for (std::size_t row = 0; row < kRows; ++row) {
        for (std::size_t k = 0; k < count; ++k) {
          for (std::size_t j = 0; j < count; ++j) {
            for (std::size_t i = 0; i < size; ++i)
              expected(row, k * size + i) +=
                  double{coefficients.view()(row, k * count + j)} * streams.view()(row, j * size + i);
          }
        }
      }
      kernels::mix_streams(coefficients.view(), size, streams.view());
      EXPECT_CLOSE(streams.view(), expected, count * kFloatNoise);
    }
  }
}

TEST(Streams, AreCorrectedByTheDifferenceThatABlockMakes) {
  constexpr std::size_t kCount = 3;
  constexpr std::size_t kSize = 37;
  Random random(1);
  const RandomTensor streams(random, kRows, kCount * kSize, 1);
  const RandomTensor coefficients(random, kRows, kCount);
  const RandomTensor y(random, kRows, kSize, 5);
  Matrix expected(streams.view());
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t i = 0; i < kCount * kSize; ++i) {
      const double difference = double{y.view()(row, i % kSize)} - streams.view()(row, i % kSize);
      expected(row, i) += (1.0 + coefficients.view()(row, i / kSize)) * difference;
    }
  }
  kernels::correct_streams(coefficients.view(), y.view(), streams.view());
  EXPECT_CLOSE(streams.view(), expected, kFloatNoise);
}

// A half of a block with hyper-connections, step by step.
TEST(Streams, AreSummedAndAddedToByWeights) {
  constexpr std::size_t kCount = 4;
  constexpr std::size_t kSize = 37;
  constexpr float kEps = 0.1F;
  Random random(3);
  const RandomTensor streams(random, kRows, kCount * kSize, 2);
  const RandomTensor products(random, kRows, 2 * kCount, 3);
  const RandomTensor scale(random, 1, 2 * kCount);
  const RandomTensor base(random, 1, 2 * kCount);
  const RandomTensor y(random, kRows, kSize);
  Matrix weights(products.view());
  Matrix sum(kRows, kSize);
  Matrix expected(streams.view());
  for (std::size_t row = 0; row < kRows; ++row) {
    double squares = 0.0;
    for (std::size_t i = 0; i < kCount * kSize; ++i)
      squares += double{streams.view()(row, i)} * streams.view()(row, i);
    const double rms = std::sqrt(squares / (kCount * kSize) + double{kEps});
    for (std::size_t i = 0; i < 2 * kCount; ++i) {
      const double z = weights(row, i) / rms * double{scale.view()(0, i)} + double{base.view()(0, i)};
      weights(row, i) = 1.5 / (1.0 + std::exp(-z)) + 0.25;
    }
    for (std::size_t i = 0; i < kCount * kSize; ++i) {
      sum(row, i % kSize) += weights(row, i / kSize) * double{streams.view()(row, i)};
      expected(row, i) += weights(row, kCount + i / kSize) * double{y.view()(row, i % kSize)};
    }
  }
  kernels::normalize_weights(streams.view(), kEps, {scale.view().data(), 2 * kCount},
                             {base.view().data(), 2 * kCount}, products.view());
  kernels::sigmoid_gates(1.5F, 0.25F, products.view());
  EXPECT_CLOSE(products.view(), weights, 2 * kFloatNoise);
  std::vector<float> out(kRows * kSize);
  kernels::sum_streams(products.view().columns_from(0, kCount), streams.view(), {out.data(), kRows, kSize});
  EXPECT_CLOSE(TensorView<const float>(out.data(), kRows, kSize), sum, 20 * kFloatNoise);
  kernels::add_to_streams(products.view().columns_from(kCount, kCount), y.view(), streams.view());
  EXPECT_CLOSE(streams.view(), expected, 10 * kFloatNoise);
}

// The definition in double precision, with numbers of streams that are and are not powers of two.
TEST(Streams, AreCombinedByAMatrixAfterSinkhornSteps) {
  constexpr std::size_t kSize = 133;
  constexpr std::size_t kSteps = 3;
  constexpr float kEps = 0.01F;
  for (const std::size_t count : {3, 4}) {
    Random random(count);
    const RandomTensor streams(random, kRows, count * kSize, 2);
    const RandomTensor weights(random, kRows, count);
    const RandomTensor y(random, kRows, kSize);
    const RandomTensor matrices(random, kRows, count * count, 3);
    Matrix stochastic(matrices.view());
    Matrix expected(kRows, count * kSize);
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto at = [&](std::size_t j, std::size_t k) -> double& { return stochastic(row, j * count + k); };
      for (std::size_t j = 0; j < count; ++j) {
        double sum = 0.0;
        for (std::size_t k = 0; k < count; ++k) sum += std::exp(at(j, k));
        for (std::size_t k = 0; k < count; ++k) at(j, k) = std::exp(at(j, k)) / sum + double{kEps};
      }
      for (std::size_t step = 0; step < 2 * kSteps - 1; ++step) {
        const bool columns = step % 2 == 0;
        for (std::size_t a = 0; a < count; ++a) {
          double sum = double{kEps};
          for (std::size_t b = 0; b < count; ++b) sum += columns ? at(b, a) : at(a, b);
          for (std::size_t b = 0; b < count; ++b) (columns ? at(b, a) : at(a, b)) /= sum;
        }
      }
      for (std::size_t i = 0; i < count * kSize; ++i) {
        const std::size_t k = i / kSize;
        expected(row, i) = double{weights.view()(row, k)} * y.view()(row, i % kSize);
        for (std::size_t j = 0; j < count; ++j)
          expected(row, i) += at(j, k) * double{streams.view()(row, j * kSize + i % kSize)};
      }
    }
    kernels::sinkhorn(count, kSteps, kEps, matrices.view());
    EXPECT_CLOSE(matrices.view(), stochastic, kFloatNoise);
    kernels::combine_streams(matrices.view(), weights.view(), y.view(), streams.view());
    EXPECT_CLOSE(streams.view(), expected, 10 * kFloatNoise);
  }
}

TEST(Streams, AreAttendedToByTheirNormedProducts) {
  constexpr std::size_t kCount = 3;
  constexpr std::size_t kSize = 41;
  constexpr float kEps = 0.01F;
  Random random(4);
  const RandomTensor streams(random, kRows, kCount * kSize, 2);
  const RandomTensor weight(random, 1, kSize);
  Matrix expected(kRows, kCount);
  for (std::size_t row = 0; row < kRows; ++row) {
    double sum = 0.0;
    for (std::size_t s = 0; s < kCount; ++s) {
      double squares = 0.0;
      double product = 0.0;
      for (std::size_t i = 0; i < kSize; ++i) {
        const double x = streams.view()(row, s * kSize + i);
        squares += x * x;
        product += x * double{weight.view()(0, i)};
      }
      expected(row, s) = std::exp(product / std::sqrt(squares / kSize + double{kEps}));
      sum += expected(row, s);
    }
    for (std::size_t s = 0; s < kCount; ++s) expected(row, s) /= sum;
  }
  std::vector<float> weights(kRows * kCount);
  kernels::attend_to_streams(streams.view(), {weight.view().data(), kSize}, kEps,
                             {weights.data(), kRows, kCount});
  EXPECT_CLOSE(TensorView<const float>(weights.data(), kRows, kCount), expected, 10 * kFloatNoise);
}

TEST(Streams, GetTheMagnitudeOfAnotherStreamIfTheyAreNotAlmostZero) {
  constexpr std::size_t kSize = 50;
  constexpr float kMin = 1e-5F;
  Random random(2);
  const RandomTensor target(random, kRows, kSize, 2);
  const RandomTensor x(random, kRows, kSize, 3);
  for (std::size_t i = 0; i < kSize; ++i) x.view()(1, i) *= 1e-4F;
  std::fill_n(x.view().row(2), kSize, 0.0F);
  const auto mean_square = [](TensorView<const float> rows, std::size_t row) {
    double sum = 0.0;
    for (std::size_t i = 0; i < kSize; ++i) sum += double{rows(row, i)} * rows(row, i);
    return sum / kSize;
  };
  Matrix expected(x.view());
  for (std::size_t row = 0; row < kRows; ++row) {
    const double factor = std::sqrt(mean_square(target.view(), row)) /
                          std::sqrt(std::max(mean_square(x.view(), row), double{kMin}));
    for (std::size_t i = 0; i < kSize; ++i) expected(row, i) *= factor;
  }
  kernels::match_magnitude(target.view(), kMin, x.view());
  EXPECT_CLOSE(x.view(), expected, kFloatNoise);
}

TEST(GateCutoff, IsSomeStandardDeviationsAboveTheMean) {
  constexpr std::size_t kColumns = 75;
  constexpr float kDeviations = 0.7F;
  Random random(3);
  const RandomTensor x(random, kRows, kColumns, 4);
  Matrix expected(x.view());
  for (std::size_t row = 0; row < kRows; ++row) {
    double mean = 0.0;
    double variance = 0.0;
    for (std::size_t i = 0; i < kColumns; ++i) mean += x.view()(row, i) / double{kColumns};
    for (std::size_t i = 0; i < kColumns; ++i)
      variance += std::pow(x.view()(row, i) - mean, 2) / double{kColumns};
    for (std::size_t i = 0; i < kColumns; ++i)
      expected(row, i) = std::max(0.0, expected(row, i) - mean - kDeviations * std::sqrt(variance));
  }
  std::vector<double> moments(2 * kRows);
  kernels::sum_moments(x.view(), 0, {moments.data(), kRows, 2});
  const std::vector<float> sums(moments.begin(), moments.end());
  kernels::cut_off({sums.data(), kRows, 2}, kColumns, kDeviations, x.view());
  EXPECT_CLOSE(x.view(), expected, kFloatNoise);
}

// Ranks have different leaves. The last leaf of all columns may be narrower.
TEST(GateCutoff, AddsUpLeavesToTheSameBitsForAnyDivision) {
  constexpr std::size_t kColumns = 75;
  constexpr std::size_t kLeaf = 16;
  Random random(4);
  const RandomTensor x(random, 1, kColumns);
  const auto moments = [&](std::size_t begin, std::size_t end) {
    std::vector<double> sums(2);
    kernels::sum_moments(x.view().columns_from(begin, end - begin), kLeaf, {sums.data(), 1, 2});
    return sums;
  };
  const std::vector<double> whole = moments(0, kColumns);
  for (std::size_t end = 0; end < kColumns; end += kLeaf) {
    const std::vector<double> first = moments(0, end);
    const std::vector<double> second = moments(end, kColumns);
    EXPECT_EQ(first[0] + second[0], whole[0]);
    EXPECT_EQ(first[1] + second[1], whole[1]);
  }
}

// Keys of 0 agree with nothing. Otherwise the root of |d| is at least 0.001, with the sign of d.
TEST(Streams, AreGatedByTheirAgreementWithKeys) {
  std::vector<float> keys(16);  // 4 tokens with a stream of 4 elements
  std::vector<float> queries(16, 1.0F);
  std::vector<float> values(16, 1.0F);
  keys[4] = 1e-9F;   // d is 5e-10
  keys[9] = -1e-9F;  // d is -5e-10
  keys[14] = 8.0F;   // d is 4
  const auto gates = [&](bool zero_has_sign) {
    std::vector<float> out(16);
    kernels::gate_by_agreement({keys.data(), 4, 4}, {queries.data(), 4, 4}, {values.data(), 4, 4},
                               zero_has_sign, {out.data(), 4, 4});
    return std::vector<float>{out[0], out[4], out[8], out[12]};
  };
  const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  const std::vector<float> found = gates(true);
  EXPECT_NEAR(found[0], sigmoid(1e-3), 1e-7);
  EXPECT_NEAR(found[1], sigmoid(1e-3), 1e-7);
  EXPECT_NEAR(found[2], sigmoid(-1e-3), 1e-7);
  EXPECT_NEAR(found[3], sigmoid(2.0), 1e-6);
  EXPECT_EQ(gates(false).front(), 0.5F);
  EXPECT_EQ(gates(false)[2], found[2]);
}

}  // namespace
}  // namespace tp

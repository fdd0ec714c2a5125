#include "model/kernels/elementwise.h"

#include "tests/model/kernels/expect_close.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Matrix;
using reference::Random;
using reference::RandomTensor;

std::vector<double> widened(const std::vector<float>& values) { return {values.begin(), values.end()}; }

// Elements are below 2 after the gain; three roundings and the float32 sum of squares cost a few 1e-7.
constexpr double kNormTolerance = 2e-6;

TEST(RmsNorm, EqualsTheReferenceForEveryWidth) {
  for (std::size_t width = 1; width <= 70; ++width) {
    Random random(width);
    const RandomTensor x(random, 3, width, width % 3);
    const RandomTensor out(random, 3, width, width % 2);
    const std::vector<float> gain = random.numbers(width);
    kernels::rms_norm(x.view(), gain, 1e-5F, out.view());
    EXPECT_CLOSE(out.view(), reference::rms_norm(Matrix(x.view()), widened(gain), 1e-5), kNormTolerance)
        << width;
  }
}

TEST(RmsNorm, WorksInPlaceAndOverManyRows) {
  Random random(1);
  const RandomTensor x(random, 700, 200);
  const std::vector<float> gain = random.numbers(200);
  const Matrix expected = reference::rms_norm(Matrix(x.view()), widened(gain), 1e-6);
  kernels::rms_norm(x.view(), gain, 1e-6F, x.view());
  EXPECT_CLOSE(x.view(), expected, kNormTolerance);
}

TEST(RmsNorm, EpsKeepsARowOfZerosFinite) {
  std::vector<float> x(7, 0.0F);
  const std::vector<float> gain(7, 1.0F);
  const TensorView<float> view(x.data(), 1, 7);
  kernels::rms_norm(view, gain, 1e-6F, view);
  for (const float value : x) EXPECT_EQ(value, 0.0F);
}

TEST(RmsNorm, EpsIsAddedToTheMeanOfTheSquares) {
  Random random(2);
  const RandomTensor x(random, 2, 5);
  const std::vector<float> gain(5, 1.0F);
  const Matrix expected = reference::rms_norm(Matrix(x.view()), widened(gain), 0.5);
  kernels::rms_norm(x.view(), gain, 0.5F, x.view());
  EXPECT_CLOSE(x.view(), expected, kNormTolerance);
}

TEST(RmsNorm, NormsEveryVectorOfARowByItself) {
  for (std::size_t width = 1; width <= 40; ++width) {
    Random random(width);
    const RandomTensor x(random, 3, 4 * width, 5);
    const std::vector<float> gain = random.numbers(width);
    const Matrix expected = reference::rms_norm(Matrix(x.view()), widened(gain), 1e-6);
    kernels::rms_norm(x.view(), gain, 1e-6F, x.view());
    EXPECT_CLOSE(x.view(), expected, kNormTolerance) << width;
  }
}

TEST(LayerNorm, EqualsTheReferenceForEveryWidth) {
  for (std::size_t width = 2; width <= 70; ++width) {
    Random random(width);
    const RandomTensor x(random, 3, width, width % 3);
    const RandomTensor out(random, 3, width, width % 2);
    const std::vector<float> gain = random.numbers(width);
    const std::vector<float> bias = random.numbers(width);
    kernels::layer_norm(x.view(), gain, bias, 1e-5F, out.view());
    EXPECT_CLOSE(out.view(), reference::layer_norm(Matrix(x.view()), widened(gain), widened(bias), 1e-5),
                 2 * kNormTolerance)  // the mean rounds, too
        << width;
  }
}

TEST(LayerNorm, WorksInPlaceAndOverManyRows) {
  Random random(1);
  const RandomTensor x(random, 700, 200);
  const std::vector<float> gain = random.numbers(200);
  const std::vector<float> bias = random.numbers(200);
  const Matrix expected = reference::layer_norm(Matrix(x.view()), widened(gain), widened(bias), 1e-6);
  kernels::layer_norm(x.view(), gain, bias, 1e-6F, x.view());
  EXPECT_CLOSE(x.view(), expected, 2 * kNormTolerance);
}

// The mean of the squares minus the square of the mean would have no digits left.
TEST(LayerNorm, StaysExactIfTheMeanExceedsTheDifferences) {
  Random random(3);
  const RandomTensor x(random, 2, 64);
  for (std::size_t i = 0; i < 64; ++i) x.view()(0, i) += 1000.0F;
  const std::vector<float> gain(64, 1.0F);
  const std::vector<float> bias(64, 0.0F);
  const Matrix expected = reference::layer_norm(Matrix(x.view()), widened(gain), widened(bias), 1e-6);
  kernels::layer_norm(x.view(), gain, bias, 1e-6F, x.view());
  EXPECT_CLOSE(x.view(), expected, 5e-4);  // a mean near 1000 is rounded to 6e-5, and again by its sum
}

class ActivationTest : public testing::TestWithParam<kernels::Activation> {};

TEST_P(ActivationTest, EqualsTheReferenceForEveryWidth) {
  for (std::size_t width = 0; width <= 50; ++width) {
    Random random(width);
    const RandomTensor gate_up(random, 3, 2 * width, 1);
    const RandomTensor out(random, 3, width, 2);
    const RandomTensor plain(random, 3, width, 1);
    const Matrix expected = reference::activate(GetParam(), Matrix(plain.view()));
    kernels::activate_and_multiply(GetParam(), gate_up.view(), out.view());
    kernels::activate(GetParam(), plain.view());
    // exp is good to two units in the last place; values stay below 1.
    EXPECT_CLOSE(out.view(), reference::activate_and_multiply(GetParam(), Matrix(gate_up.view())), 5e-7)
        << width;
    EXPECT_CLOSE(plain.view(), expected, 5e-7) << width;
  }
}

TEST_P(ActivationTest, IsRightFarFromZero) {
  std::vector<float> x = {1e18F, 2e38F, std::numeric_limits<float>::infinity()};
  for (int i = -1200; i <= 1200; ++i) x.push_back(static_cast<float>(i) / 10.0F);
  const TensorView<float> view(x.data(), 1, x.size());
  const Matrix expected = reference::activate(GetParam(), Matrix(view));
  kernels::activate(GetParam(), view);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (expected(0, i) > std::numeric_limits<float>::max()) {  // also for a square
      EXPECT_EQ(x[i], std::numeric_limits<float>::infinity());
      continue;
    }
    // The error is a few units in the last place, or the loss where the result is almost zero.
    EXPECT_NEAR(x[i], expected(0, i), 5e-7 * std::max(1.0, std::abs(expected(0, i)))) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ActivationTest,
                         testing::Values(kernels::Activation::silu, kernels::Activation::gelu,
                                         kernels::Activation::gelu_tanh, kernels::Activation::relu,
                                         kernels::Activation::relu_squared,
                                         kernels::Activation::clamped_swiglu, kernels::Activation::sigmoid));

TEST(MultiplyActivated, GatesARowInPlace) {
  for (std::size_t width = 1; width <= 40; ++width) {
    Random random(width);
    const RandomTensor gate(random, 3, width, 2);
    const RandomTensor x(random, 3, width, 1);
    Matrix expected = reference::activate(kernels::Activation::sigmoid, Matrix(gate.view()));
    for (std::size_t row = 0; row < 3; ++row) {
      for (std::size_t i = 0; i < width; ++i) expected(row, i) *= x.view()(row, i);
    }
    kernels::multiply_activated(kernels::Activation::sigmoid, gate.view(), x.view());
    EXPECT_CLOSE(x.view(), expected, 5e-7) << width;
  }
}

TEST(Xielu, EqualsTheReferenceForEveryWidth) {
  const kernels::Xielu function{.positive = 0.8F, .negative = 1.3F, .linear = 0.5F, .eps = -1e-6F};
  for (std::size_t width = 0; width <= 50; ++width) {
    Random random(width);
    const RandomTensor x(random, 3, width, 1);
    for (std::size_t i = 0; i < width; ++i) {
      x.view()(1, i) *= 20.0F;
      x.view()(2, i) *= 0.001F;
    }
    const Matrix expected = reference::xielu(function, Matrix(x.view()));
    kernels::xielu(function, x.view());
    for (std::size_t r = 0; r < 3; ++r) {
      for (std::size_t i = 0; i < width; ++i)
        ASSERT_NEAR(x.view()(r, i), expected(r, i), 1e-6 * std::max(0.1, std::abs(expected(r, i)))) << width;
    }
  }
}

// The exponential's two branches meet at -1/16, and the curve has a corner at 0.
TEST(Xielu, IsRightNearItsJointsAndFarFromZero) {
  const kernels::Xielu function{.positive = 0.3F, .negative = 0.9F, .linear = 0.5F, .eps = -1e-6F};
  std::vector<float> x = {0.0F, -1e-9F, 1e-9F, -1e-6F, -2e-6F, -0.0624F, -0.0625F, -0.0626F, -1e4F, 1e4F};
  const TensorView<float> view(x.data(), 1, x.size());
  const Matrix expected = reference::xielu(function, Matrix(view));
  kernels::xielu(function, view);
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(x[i], expected(0, i), 5e-7 * std::max(std::abs(expected(0, i)), 1e-4)) << i;
}

TEST(Clip, CutsOnlyValuesBeyondTheLimit) {
  for (std::size_t width = 1; width <= 40; ++width) {
    Random random(width);
    const RandomTensor x(random, 3, width, 2);
    Matrix expected{TensorView<const float>(x.view())};
    for (double& value : expected.values) value = std::clamp(value, -0.25, 0.25);
    kernels::clip(0.25F, x.view());
    EXPECT_CLOSE(x.view(), expected, 0.0) << width;
  }
}

TEST(Softcap, EqualsTheReference) {
  for (const float cap : {0.5F, 6.0F, 30.0F}) {
    for (std::size_t width = 1; width <= 40; ++width) {
      Random random(width);
      const RandomTensor x(random, 3, width, 1);
      for (std::size_t i = 0; i < width; ++i) x.view()(1, i) *= 100.0F;
      const Matrix expected = reference::softcap(cap, Matrix(x.view()));
      kernels::softcap(cap, x.view());
      EXPECT_CLOSE(x.view(), expected, 3e-7 * cap) << cap;  // tanh is good to 1e-7 of 1
    }
  }
}

TEST(Multiply, MultipliesEveryElementOfPaddedRows) {
  for (const std::size_t rows : {0U, 1U, 3U, 900U}) {
    Random random(rows);
    const RandomTensor both(random, rows, 2 * 37, 3);
    const TensorView<float> factors = both.view().columns_from(0, 37);
    const TensorView<float> x = both.view().columns_from(37, 37);
    Matrix expected{TensorView<const float>(x)};
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < 37; ++i) expected(row, i) *= factors(row, i);
    }
    kernels::multiply(factors, x);
    EXPECT_CLOSE(x, expected, 1e-7) << rows;
  }
}

TEST(Add, AddsEveryElement) {
  for (const std::size_t rows : {0U, 1U, 3U, 900U}) {
    Random random(rows);
    const RandomTensor x(random, rows, 37, 1);
    const RandomTensor y(random, rows, 37, 2);
    Matrix expected{TensorView<const float>(y.view())};
    reference::add(Matrix(x.view()), expected);
    const std::vector<float> before = y.memory();
    kernels::add(x.view(), y.view());
    EXPECT_CLOSE(y.view(), expected, 1.2e-7);  // one rounding of a sum below 2
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (i % 39 >= 37) {
        ASSERT_EQ(y.memory()[i], before[i]);
      }
    }
  }
}

TEST(AddBias, AddsTheBiasToEveryRow) {
  for (std::size_t width = 1; width <= 40; ++width) {
    Random random(width);
    const RandomTensor y(random, 4, width, 1);
    const std::vector<float> bias = random.numbers(width);
    Matrix expected{TensorView<const float>(y.view())};
    reference::add_bias(widened(bias), expected);
    kernels::add_bias(bias, y.view());
    EXPECT_CLOSE(y.view(), expected, 1.2e-7);  // one rounding of a sum below 2
  }
}

}  // namespace
}  // namespace tp

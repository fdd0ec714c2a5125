#include "model/kernels/elementwise.h"

#include "tests/kernels/expect_close.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"

#include <limits>

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

TEST(SiluMultiply, EqualsTheReferenceForEveryWidth) {
  for (std::size_t width = 0; width <= 50; ++width) {
    Random random(width);
    const RandomTensor gate_up(random, 3, 2 * width, 1);
    const RandomTensor out(random, 3, width, 2);
    kernels::silu_multiply(gate_up.view(), out.view());
    // exp is good to two units in the last place; values stay below 1.
    EXPECT_CLOSE(out.view(), reference::silu_multiply(Matrix(gate_up.view())), 5e-7) << width;
  }
}

TEST(SiluMultiply, IsRightForGatesFarFromZero) {
  std::vector<float> gate_up;
  for (int gate = -120; gate <= 120; ++gate) gate_up.push_back(static_cast<float>(gate));
  const std::size_t size = gate_up.size();
  for (std::size_t i = 0; i < size; ++i) gate_up.push_back(0.5F);
  std::vector<float> out(size);
  const TensorView<float> view(gate_up.data(), 1, 2 * size);
  kernels::silu_multiply(view, TensorView<float>(out.data(), 1, size));
  // Half of 120 with a float32's relative error; far below zero the true value is below 1e-34.
  EXPECT_CLOSE(TensorView<const float>(out.data(), 1, size), reference::silu_multiply(Matrix(view)), 1e-5);
}

TEST(Add, AddsEveryElementAndNothingElse) {
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

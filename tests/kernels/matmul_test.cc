#include "model/kernels/matmul.h"

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

// Operands are in [-1, 1): n products of at most 1 and their sum round by at most n^2 ulp; in practice the
// errors' signs differ, and the sum of n terms is near sqrt(n). 4e-7 a term is three times what is seen.
double tolerance(std::size_t in_features) { return 4e-7 * static_cast<double>(in_features + 1); }

void expect_product(std::size_t tokens, std::size_t in_features, std::size_t out_features,
                    std::size_t padding) {
  SCOPED_TRACE(testing::Message() << tokens << " tokens, " << in_features << " -> " << out_features
                                  << ", padding " << padding);
  Random random(tokens * 1000003 + in_features * 1009 + out_features);
  const RandomTensor x(random, tokens, in_features, padding);
  const RandomTensor weight(random, out_features, in_features, 2 * padding);
  RandomTensor y(random, tokens, out_features, 3 * padding);
  const std::vector<float> before = y.memory();
  kernels::matmul(x.view(), weight.view(), y.view());
  EXPECT_CLOSE(y.view(), reference::matmul(Matrix(x.view()), Matrix(weight.view())), tolerance(in_features));
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i % (out_features + 3 * padding) >= out_features) {
      ASSERT_EQ(y.memory()[i], before[i]) << i;
    }
  }
}

// One token has four sums in flight, four share a pass over the weights, more than eight go to OpenBLAS.
TEST(Matmul, EqualsTheReferenceForEveryNumberOfTokens) {
  for (std::size_t tokens = 0; tokens <= 20; ++tokens) expect_product(tokens, 67, 13, 0);
}

// 16 floats make a vector and 64 a step of the one-token loop: widths around their multiples.
TEST(Matmul, EqualsTheReferenceForEveryRemainderOfTheWidth) {
  for (std::size_t in_features = 0; in_features <= 150; ++in_features) {
    for (const std::size_t tokens : {1U, 4U, 7U, 9U}) expect_product(tokens, in_features, 3, 0);
  }
}

TEST(Matmul, EqualsTheReferenceForEveryNumberOfOutputs) {
  for (std::size_t out_features = 0; out_features <= 40; ++out_features) {
    for (const std::size_t tokens : {1U, 5U, 12U}) expect_product(tokens, 33, out_features, 0);
  }
}

TEST(Matmul, TakesRowsThatAreFurtherApartThanTheyAreWide) {
  for (const std::size_t tokens : {1U, 3U, 8U, 9U, 17U}) expect_product(tokens, 50, 21, 5);
}

// A rank may own no column of a feed-forward layer: its addend is zero, whatever the memory held before.
TEST(Matmul, OfNoInputFeaturesIsZero) {
  for (const std::size_t tokens : {1U, 8U, 9U, 30U}) {
    std::vector<float> y(tokens * 5, std::numeric_limits<float>::quiet_NaN());
    kernels::matmul(TensorView<const float>(nullptr, tokens, 0), TensorView<const float>(nullptr, 5, 0),
                    TensorView<float>(y.data(), tokens, 5));
    for (const float value : y) EXPECT_EQ(value, 0.0F);
  }
}

// Large enough to be shared by threads, with more outputs than divide evenly.
TEST(Matmul, SharedByThreadsEqualsTheReference) {
  expect_product(1, 600, 401, 0);
  expect_product(6, 300, 403, 1);
}

}  // namespace
}  // namespace tp

#include "model/kernels/rope.h"

#include "tests/model/kernels/expect_close.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Matrix;
using reference::Random;
using reference::RandomTensor;

// Rotates 2 * half elements of heads of head_dim elements.
void expect_rotation(std::size_t tokens, std::size_t heads, std::size_t head_dim, std::size_t half,
                     std::size_t padding) {
  SCOPED_TRACE(testing::Message() << tokens << " tokens, 2 x " << half << " of " << heads << " x "
                                  << head_dim);
  Random random(tokens + 31 * heads + 1009 * half);
  const RandomTensor x(random, tokens, heads * head_dim, padding);
  const RandomTensor cosine(random, tokens, half);
  const RandomTensor sine(random, tokens, half);
  Matrix angles(tokens, half);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t i = 0; i < half; ++i) {
      angles(t, i) = 10.0 * random.number();
      cosine.view()(t, i) = static_cast<float>(1.25 * std::cos(angles(t, i)));
      sine.view()(t, i) = static_cast<float>(1.25 * std::sin(angles(t, i)));
    }
  }
  const Matrix expected = reference::rotate(Matrix(x.view()), head_dim, angles, 1.25);
  kernels::rotate(x.view(), head_dim, cosine.view(), sine.view());
  EXPECT_CLOSE(x.view(), expected, 5e-7);  // two products and a sum of numbers below 1.25
}

TEST(Rotate, TurnsEveryHeadByItsTokensAngles) {
  for (std::size_t half = 1; half <= 36; ++half) expect_rotation(3, 2, 2 * half, half, 0);
  expect_rotation(1, 1, 128, 64, 0);
}

TEST(Rotate, LeavesTheRestOfAHeadUnchanged) {
  for (std::size_t half = 0; half <= 12; ++half) expect_rotation(3, 2, 24, half, 0);
}

// Queries and keys are columns of one product.
TEST(Rotate, LeavesOtherColumnsUnchanged) { expect_rotation(5, 3, 12, 6, 11); }

// RotatePairs rotates neighbours by the same angles as Rotate does halves.
TEST(RotatePairs, TurnsNeighboursAsRotateTurnsHalves) {
  for (const std::size_t half : {1U, 2U, 3U, 8U, 32U}) {
    Random random(half);
    constexpr std::size_t kHeads = 3;
    const std::size_t tokens = half == 32 ? 900 : 5;
    const RandomTensor halves(random, tokens, kHeads * 2 * half, 3);
    const RandomTensor neighbours(random, tokens, kHeads * 2 * half, 3);
    const auto for_pairs = [&](const auto& body) {
      for (std::size_t t = 0; t < tokens; ++t) {
        for (std::size_t first = 0; first < kHeads * 2 * half; first += 2 * half) {
          for (std::size_t i = 0; i < half; ++i) {
            body(halves.view()(t, first + i), neighbours.view()(t, first + 2 * i));
            body(halves.view()(t, first + half + i), neighbours.view()(t, first + 2 * i + 1));
          }
        }
      }
    };
    for_pairs([](float from, float& to) { to = from; });
    const RandomTensor cosine(random, tokens, half);
    const RandomTensor sine(random, tokens, half);
    kernels::rotate(halves.view(), 2 * half, cosine.view(), sine.view());
    kernels::rotate_pairs(neighbours.view(), 2 * half, cosine.view(), sine.view());
    for_pairs([](float expected, float found) { EXPECT_NEAR(found, expected, 5e-7); });
  }
}

TEST(Rotate, AcceptsManyTokensAndNoTokens) {
  expect_rotation(900, 3, 64, 32, 0);
  kernels::rotate(TensorView<float>(nullptr, 0, 16), 8, TensorView<const float>(nullptr, 0, 4),
                  TensorView<const float>(nullptr, 0, 4));
}

}  // namespace
}  // namespace tp

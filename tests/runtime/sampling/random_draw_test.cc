#include "runtime/sampling/random_draw.h"

#include <array>
#include <bit>
#include <set>

#include <gtest/gtest.h>

namespace tp {
namespace {

TEST(RandomDraw, GivesTheSameBitsInEveryVersion) {
  // A published seed must always give the same text.
  const RandomDraw draw({.seed = 1, .sample = 2, .position = 3});
  EXPECT_EQ(draw.bits(0), 2399657773382937285U);
  EXPECT_EQ(draw.bits(31999), 14233319861483929699U);
}

TEST(RandomDraw, DependsOnEveryPartOfTheKeyAndOnTheToken) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (std::uint64_t sample = 0; sample < 8; ++sample) {
      for (std::uint64_t position = 0; position < 8; ++position) {
        for (TokenId id = 0; id < 8; ++id) seen.insert(RandomDraw({seed, sample, position}).bits(id));
      }
    }
  }
  EXPECT_EQ(seen.size(), 8U * 8 * 8 * 8);
}

TEST(RandomDraw, ChangesHalfOfTheBitsFromAnyNeighbour) {
  const auto distance = [](DrawKey a, TokenId id_a, DrawKey b, TokenId id_b) {
    return std::popcount(RandomDraw(a).bits(id_a) ^ RandomDraw(b).bits(id_b));
  };
  std::array<int, 4> flips{};
  constexpr int kTries = 4000;
  for (int i = 0; i < kTries; ++i) {
    const auto n = static_cast<std::uint64_t>(i);
    const DrawKey key{n, n % 7, n % 1000};
    flips[0] += distance(key, i, {key.seed + 1, key.sample, key.position}, i);
    flips[1] += distance(key, i, {key.seed, key.sample + 1, key.position}, i);
    flips[2] += distance(key, i, {key.seed, key.sample, key.position + 1}, i);
    flips[3] += distance(key, i, key, i + 1);
  }
  // The mean of 64 * 4000 fair coins has a deviation of 0.063 bits.
  for (const int flipped : flips) EXPECT_NEAR(static_cast<double>(flipped) / kTries, 32.0, 0.3);
}

TEST(RandomDraw, NoiseIsGumbelDistributed) {
  double sum = 0.0;
  double squares = 0.0;
  constexpr int kDraws = 200000;
  for (int i = 0; i < kDraws; ++i) {
    const double noise =
        RandomDraw::gumbel(RandomDraw({7, 0, static_cast<std::uint64_t>(i / 1000)}).bits(i % 1000));
    sum += noise;
    squares += noise * noise;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 0.5772, 0.015);  // Euler's constant; deviation 1.28 / sqrt(kDraws) = 0.003
  EXPECT_NEAR(squares / kDraws - mean * mean, 1.645, 0.05);  // pi^2 / 6
}

TEST(RandomDraw, NoiseStaysFiniteAtTheEndsOfItsRange) {
  EXPECT_NEAR(RandomDraw::gumbel(0), 36.74, 0.01);
  EXPECT_NEAR(RandomDraw::gumbel(~std::uint64_t{0}), -3.60, 0.01);
}

TEST(RandomDraw, BoundIsNeverBelowTheNoise) {
  const RandomDraw draw({.seed = 5});
  for (int zeros = 0; zeros < 64; ++zeros) {
    for (TokenId id = 0; id < 200; ++id) {
      const std::uint64_t bits = draw.bits(id) >> zeros;
      EXPECT_GE(RandomDraw::gumbel_bound(bits) + 1e-12, RandomDraw::gumbel(bits));
    }
  }
}

}  // namespace
}  // namespace tp

#include "model/layers/linear/rope.h"

#include "tests/reference/rope.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tp {
namespace {

void expect_frequencies(double theta, const RopeScaling& scaling, std::size_t head_dim) {
  const Rope rope({theta, scaling, head_dim}, 4096);
  const reference::Frequencies expected = reference::rope_frequencies(theta, scaling, head_dim);
  ASSERT_EQ(rope.frequencies().size(), expected.per_position.size());
  for (std::size_t i = 0; i < expected.per_position.size(); ++i) {
    // Computed in double and rounded once to float32.
    EXPECT_NEAR(rope.frequencies()[i], expected.per_position[i], 1e-7 * expected.per_position[i])
        << "pair " << i << " of head_dim " << head_dim << ", theta " << theta;
  }
  EXPECT_NEAR(rope.magnitude(), expected.magnitude, 1e-6);
}

TEST(Rope, WithoutScalingTurnsByPowersOfTheta) {
  const Rope rope({10000.0, {}, 4}, 4096);
  EXPECT_FLOAT_EQ(rope.frequencies()[0], 1.0F);
  EXPECT_FLOAT_EQ(rope.frequencies()[1], 0.01F);
  for (const std::size_t head_dim : {2U, 8U, 12U, 64U, 128U}) expect_frequencies(500000.0, {}, head_dim);
}

TEST(Rope, LinearDividesEveryFrequency) {
  RopeScaling scaling{.kind = RopeScaling::Kind::linear, .factor = 2.5};
  const Rope rope({10000.0, scaling, 4}, 4096);
  EXPECT_FLOAT_EQ(rope.frequencies()[0], 0.4F);
  EXPECT_FLOAT_EQ(rope.frequencies()[1], 0.004F);
  EXPECT_EQ(rope.magnitude(), 1.0F);
  expect_frequencies(10000.0, scaling, 64);
}

// Unlike in partial RoPE, the whole width divides the exponents.
TEST(Rope, ProportionalTurnsTheFirstPairsOnly) {
  RopeScaling scaling{.kind = RopeScaling::Kind::proportional, .turning_part = 0.5};
  const Rope rope({10000.0, scaling, 8}, 4096);
  EXPECT_FLOAT_EQ(rope.frequencies()[1], 0.1F);
  EXPECT_EQ(rope.frequencies()[2], 0.0F);
  EXPECT_EQ(rope.frequencies()[3], 0.0F);
  scaling.turning_part = 0.25;
  for (const double factor : {1.0, 4.0}) {
    scaling.factor = factor;
    expect_frequencies(1e6, scaling, 512);
  }
}

TEST(Rope, Llama3EqualsHuggingFace) {
  for (const double factor : {1.0, 8.0, 32.0}) {
    for (const std::size_t original : {32U, 8192U}) {
      for (const double high : {2.0, 4.0}) {
        expect_frequencies(500000.0,
                           {.kind = RopeScaling::Kind::llama3,
                            .factor = factor,
                            .low_freq_factor = 1.0,
                            .high_freq_factor = high,
                            .original_max_position_embeddings = original},
                           128);
      }
    }
  }
}

TEST(Rope, Llama3KeepsShortWavesAndStretchesLongOnes) {
  const RopeScaling scaling{.kind = RopeScaling::Kind::llama3,
                            .factor = 8.0,
                            .low_freq_factor = 1.0,
                            .high_freq_factor = 4.0,
                            .original_max_position_embeddings = 8192};
  const Rope plain({500000.0, {}, 128}, 8192);
  const Rope scaled({500000.0, scaling, 128}, 8192);
  EXPECT_EQ(scaled.frequencies()[0], plain.frequencies()[0]);
  EXPECT_FLOAT_EQ(scaled.frequencies()[63], plain.frequencies()[63] / 8);
}

TEST(Rope, YarnEqualsHuggingFace) {
  for (const double factor : {1.0, 4.0, 40.0}) {
    for (const std::size_t original : {16U, 4096U, 32768U}) {
      for (const double beta_slow : {0.5, 1.0}) {
        for (const std::size_t head_dim : {16U, 64U, 128U}) {
          for (const bool truncate : {true, false}) {
            expect_frequencies(10000.0,
                               {.kind = RopeScaling::Kind::yarn,
                                .factor = factor,
                                .original_max_position_embeddings = original,
                                .beta_fast = 32.0,
                                .beta_slow = beta_slow,
                                .truncate = truncate,
                                .attention_factor = 1.2},
                               head_dim);
          }
        }
      }
    }
  }
}

TEST(Rope, LongropeDividesByTheFactorsOfTheLongestSequence) {
  const RopeScaling scaling{.kind = RopeScaling::Kind::longrope,
                            .original_max_position_embeddings = 32,
                            .attention_factor = 1.25,
                            .short_factor = {1.0, 2.0},
                            .long_factor = {4.0, 8.0}};
  const Rope in_short({10000.0, scaling, 4}, 32);
  EXPECT_FLOAT_EQ(in_short.frequencies()[0], 1.0F);
  EXPECT_FLOAT_EQ(in_short.frequencies()[1], 0.005F);
  const Rope in_long({10000.0, scaling, 4}, 33);
  EXPECT_FLOAT_EQ(in_long.frequencies()[0], 0.25F);
  EXPECT_FLOAT_EQ(in_long.frequencies()[1], 0.00125F);
  EXPECT_EQ(in_short.magnitude(), 1.25F);
  EXPECT_EQ(in_long.magnitude(), 1.25F);
}

TEST(Rope, AnglesAreThePositionsTimesTheFrequencies) {
  const Rope rope({10000.0,
                   {.kind = RopeScaling::Kind::yarn,
                    .factor = 4,
                    .original_max_position_embeddings = 16,
                    .attention_factor = 1.5},
                   8},
                  64);
  Workspace workspace(1000);
  const std::vector<std::size_t> positions = {0, 7, 100, 3};
  const RopeAngles angles = rope(positions, workspace);
  ASSERT_EQ(angles.cosine.rows(), 4U);
  ASSERT_EQ(angles.cosine.columns(), 4U);
  for (std::size_t token = 0; token < positions.size(); ++token) {
    for (std::size_t i = 0; i < 4; ++i) {
      const double angle = static_cast<double>(positions[token]) * rope.frequencies()[i];
      // The angle, up to 100, is rounded to float32.
      EXPECT_NEAR(angles.cosine(token, i), 1.5 * std::cos(angle), 1e-5);
      EXPECT_NEAR(angles.sine(token, i), 1.5 * std::sin(angle), 1e-5);
    }
  }
}

}  // namespace
}  // namespace tp

// Attention by random features against its definition, and against exact attention.
#include "model/kernels/favor.h"

#include "tests/reference/random.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>
#include <omp.h>

namespace tp {
namespace {

double favor_dot(const double* a, const double* b, std::size_t size) {
  double sum = 0.0;
  for (std::size_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

// One sequence: queries, keys and values of a layer, and its random features.
struct FavorProblem {
  std::size_t tokens = 0;
  std::size_t head_dim = 0;
  std::size_t num_features = 0;
  std::vector<std::size_t> kv_of_head{};
  float scale = 0.3F;

  FavorProblem(std::uint64_t seed, std::size_t tokens_, std::size_t head_dim_, std::size_t num_features_,
               std::vector<std::size_t> kv_of_head_, float size = 1.0F)
      : tokens(tokens_),
        head_dim(head_dim_),
        num_features(num_features_),
        kv_of_head(std::move(kv_of_head_)),
        query(numbers(seed, tokens * heads() * head_dim, size)),
        key(numbers(seed + 1, tokens * kv_heads() * head_dim, size)),
        value(numbers(seed + 2, tokens * kv_heads() * head_dim, 1.0F)),
        out(query.size()),
        state(kernels::favor_state_floats(kv_heads(), num_features, head_dim), 77.0F) {
    for (std::size_t head = 0; head < kv_heads(); ++head) {
      const auto own = kernels::orthogonal_features(seed + head, num_features, head_dim);
      features.insert(features.end(), own.begin(), own.end());
    }
  }

  static std::vector<float> numbers(std::uint64_t seed, std::size_t count, float size) {
    reference::Random random(seed);
    std::vector<float> all(count);
    for (float& number : all) number = (static_cast<float>(random.integer(0, 2000)) / 1000.0F - 1.0F) * size;
    return all;
  }

  std::size_t heads() const { return kv_of_head.size(); }
  std::size_t kv_heads() const { return kv_of_head.back() + 1; }

  // Runs the tokens [first, first + count) and copies the state on the way.
  void run(std::size_t first, std::size_t count, std::span<const kernels::StateCopy> copies = {}) {
    const std::vector<kernels::RecurrentRun> runs = {
        {.first_token = first, .tokens = count, .position = first, .state = state.data(), .copies = copies}};
    const std::size_t columns = kernels::favor_scratch(heads(), num_features, head_dim);
    const auto threads = static_cast<std::size_t>(omp_get_max_threads());
    std::vector<float> scratch(threads * columns);
    kernels::favor_attention({.query = {query.data(), tokens, heads() * head_dim},
                              .key = {key.data(), tokens, kv_heads() * head_dim},
                              .value = {value.data(), tokens, kv_heads() * head_dim},
                              .kv_of_head = kv_of_head,
                              .features = features,
                              .num_features = num_features,
                              .head_dim = head_dim,
                              .scale = scale,
                              .scratch = {scratch.data(), threads, columns},
                              .out = {out.data(), tokens, heads() * head_dim}},
                             runs);
  }

  // weight(token, head, key) of exact attention, or its estimate.
  double exact(std::size_t token, std::size_t head, std::size_t other) const {
    double sum = 0.0;
    for (std::size_t d = 0; d < head_dim; ++d)
      sum += static_cast<double>(query[(token * heads() + head) * head_dim + d]) *
             key[(other * kv_heads() + kv_of_head[head]) * head_dim + d];
    return std::exp(scale * sum);
  }
  double estimate(std::size_t token, std::size_t head, std::size_t other) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < num_features; ++i)
      sum += feature(query.data() + (token * heads() + head) * head_dim, kv_of_head[head], i) *
             feature(key.data() + (other * kv_heads() + kv_of_head[head]) * head_dim, kv_of_head[head], i);
    return sum / static_cast<double>(num_features);
  }
  double feature(const float* vector, std::size_t kv_head, std::size_t index) const {
    double along = 0.0;
    double squares = 0.0;
    for (std::size_t d = 0; d < head_dim; ++d) {
      const double element = vector[d] * std::sqrt(static_cast<double>(scale));
      along += element * features[(kv_head * num_features + index) * head_dim + d];
      squares += element * element;
    }
    return std::exp(along - squares / 2);
  }

  // Returns the largest difference and the root mean square difference from means with these weights.
  template <class Weight>
  std::pair<double, double> difference(const Weight& weight) const {
    double largest = 0.0;
    double squares = 0.0;
    for (std::size_t token = 0; token < tokens; ++token) {
      for (std::size_t head = 0; head < heads(); ++head) {
        std::vector<double> mean(head_dim);
        double total = 0.0;
        for (std::size_t other = 0; other <= token; ++other) {
          const double part = weight(token, head, other);
          total += part;
          for (std::size_t d = 0; d < head_dim; ++d)
            mean[d] += part * value[(other * kv_heads() + kv_of_head[head]) * head_dim + d];
        }
        for (std::size_t d = 0; d < head_dim; ++d) {
          const double apart = std::abs(out[(token * heads() + head) * head_dim + d] - mean[d] / total);
          largest = apart <= largest ? largest : apart;
          squares += apart * apart;
        }
      }
    }
    return {largest, std::sqrt(squares / static_cast<double>(out.size()))};
  }

  std::vector<float> query;     // [tokens, heads, head_dim]
  std::vector<float> key;       // [tokens, kv_heads, head_dim]
  std::vector<float> value;     // [tokens, kv_heads, head_dim]
  std::vector<float> out;       // [tokens, heads, head_dim]
  std::vector<float> state;     // garbage before the first token
  std::vector<float> features;  // [kv_heads, num_features, head_dim]
};

TEST(OrthogonalFeatures, AreAtRightAnglesInBlocksAndAsLongAsNormalVectors) {
  constexpr std::size_t kSize = 24;
  constexpr std::size_t kFeatures = 60;
  const std::vector<float> features = kernels::orthogonal_features(5, kFeatures, kSize);
  ASSERT_EQ(features.size(), kFeatures * kSize);
  const std::vector<double> rows(features.begin(), features.end());
  double squares = 0.0;
  for (std::size_t i = 0; i < kFeatures; ++i) {
    squares += favor_dot(&rows[i * kSize], &rows[i * kSize], kSize);
    for (std::size_t j = i / kSize * kSize; j < i; ++j)
      EXPECT_NEAR(favor_dot(&rows[i * kSize], &rows[j * kSize], kSize), 0.0, 1e-4) << i << ", " << j;
  }
  // The mean of 60 squares, each with mean 24 and deviation sqrt(48). The tolerance is four deviations of the
  // mean.
  EXPECT_NEAR(squares / kFeatures, kSize, 4 * std::sqrt(48.0 / kFeatures));
  EXPECT_EQ(kernels::orthogonal_features(5, kFeatures, kSize), features);
  EXPECT_NE(kernels::orthogonal_features(6, kFeatures, kSize), features);
}

TEST(FavorAttention, IsTheMeanOfValuesWeightedWithProductsOfFeatures) {
  for (const std::size_t head_dim : {4U, 15U, 16U, 40U}) {
    for (const std::size_t features : {1U, 3U, 16U, 50U}) {
      FavorProblem problem(head_dim * 100 + features, 30, head_dim, features, {0, 0, 0, 1, 2, 2});
      problem.run(0, 30);
      const auto estimate = [&](auto... place) { return problem.estimate(place...); };
      EXPECT_LE(problem.difference(estimate).first, 2e-5) << head_dim << ", " << features;
    }
  }
}

// Each key is farther away than all earlier keys, so sums are rescaled to new maxima repeatedly.
TEST(FavorAttention, SurvivesScoresFarFromZero) {
  FavorProblem problem(3, 40, 16, 64, {0, 0}, 1.0F);
  for (std::size_t token = 0; token < 40; ++token) {
    for (std::size_t d = 0; d < 16; ++d) {
      problem.key[token * 16 + d] *= static_cast<float>(token);
      problem.query[token * 32 + d] *= 20.0F;
    }
  }
  problem.run(0, 40);
  EXPECT_TRUE(std::ranges::all_of(problem.out, [](float x) { return std::abs(x) <= 1.001F; }));
}

TEST(FavorAttention, HasTheSameBitsInAnyChunksAndFromACopyOfItsState) {
  FavorProblem whole(9, 50, 16, 32, {0, 1, 1});
  whole.run(0, 50);
  FavorProblem parts(9, 50, 16, 32, {0, 1, 1});
  std::vector<float> copy(parts.state.size());
  const std::vector<kernels::StateCopy> copies = {{7, copy.data()}};
  parts.run(0, 20, copies);
  parts.run(20, 1);
  parts.run(21, 29);
  EXPECT_EQ(parts.out, whole.out);
  FavorProblem again(9, 50, 16, 32, {0, 1, 1});
  again.state = copy;
  again.run(7, 43);
  EXPECT_TRUE(std::equal(again.out.begin() + 7 * 48, again.out.end(), whole.out.begin() + 7 * 48));
}

// The error of m independent positive features has the mean square
//   exp(|q + k|^2) exp(q k)^2 (1 - exp(-|q + k|^2)) / m
// and the error of orthogonal features is smaller. Source: Choromanski et al., 2021, lemma 2 and theorem 2.
TEST(FavorAttention, EstimatesKernelsWithinThePapersBound) {
  constexpr std::size_t kSize = 16;
  constexpr std::size_t kSeeds = 1500;
  FavorProblem problem(21, 1, kSize, 1, {0});
  const double product = std::log(problem.exact(0, 0, 0));
  double sum_squares = 0.0;
  for (std::size_t d = 0; d < kSize; ++d) {
    const double sum = problem.query[d] + problem.key[d];
    sum_squares += problem.scale * sum * sum;
  }
  const double exact = std::exp(product);
  const double of_one = std::exp(sum_squares) * exact * exact * (1 - std::exp(-sum_squares));
  double before = INFINITY;
  for (const std::size_t features : {8U, 32U, 128U}) {
    problem.num_features = features;
    double squares = 0.0;
    for (std::size_t seed = 0; seed < kSeeds; ++seed) {
      problem.features = kernels::orthogonal_features(seed, features, kSize);
      const double error = problem.estimate(0, 0, 0) - exact;
      squares += error * error;
    }
    const double mean = squares / kSeeds;
    // The mean of this many squares of a skewed distribution varies by some tens of per cent.
    EXPECT_LE(mean, 1.3 * of_one / static_cast<double>(features)) << features;
    EXPECT_GE(mean, 0.2 * of_one / static_cast<double>(features)) << features << ": suspiciously good";
    EXPECT_LE(mean, before / 2.5) << features;
    before = mean;
  }
}

TEST(FavorAttention, ComesCloserToExactAttentionWithMoreFeatures) {
  double before = INFINITY;
  for (const std::size_t features : {16U, 64U, 256U, 1024U}) {
    FavorProblem problem(31, 60, 16, features, {0, 0, 1, 1});
    problem.run(0, 60);
    const double error = problem.difference([&](auto... place) { return problem.exact(place...); }).second;
    // Four times the features halve the error, apart from the variation of a single draw.
    EXPECT_LE(error, before * 0.75) << features;
    before = error;
  }
  EXPECT_LE(before, 0.04);
}

}  // namespace
}  // namespace tp

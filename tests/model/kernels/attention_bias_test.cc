// Terms that encoders add to scores: biases by distance, and biases of keys beyond a window.
#include "tests/model/kernels/paged_sequences.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using kernels::AttentionPattern;
using test::PagedSequences;

constexpr double kScale = PagedSequences::kScale;
// As in attention_test.cc. Biases of up to 2 make scores slightly larger.
constexpr double kBiasTolerance = 1e-5;
constexpr std::size_t kHeads = 2;
constexpr std::size_t kKeyDim = 6;

struct Extras {
  AttentionPattern pattern{.causal = false};
  std::vector<float> relative_bias{};  // [kHeads, 2 * reach + 1]
  std::size_t reach = 0;
  std::vector<float> key_bias{};  // [length]
};

// Returns the position that is stored at each place of a sequence in residue order.
std::vector<std::size_t> stored_positions(std::size_t length, std::size_t dilation) {
  std::vector<std::size_t> positions;
  for (std::size_t residue = 0; residue < dilation; ++residue) {
    for (std::size_t position = residue; position < length; position += dilation)
      positions.push_back(position);
  }
  return positions;
}

// Whether the pattern shows a key to a token, both given by place.
bool shows(const AttentionPattern& pattern, std::size_t position, std::size_t key, std::size_t length) {
  if (pattern.dilation != 1) {
    const std::vector<std::size_t> positions = stored_positions(length, pattern.dilation);
    const auto apart =
        static_cast<std::ptrdiff_t>(positions[key]) - static_cast<std::ptrdiff_t>(positions[position]);
    const auto steps = static_cast<std::size_t>(std::abs(apart)) / pattern.dilation;
    return static_cast<std::size_t>(std::abs(apart)) % pattern.dilation == 0 && steps < *pattern.window;
  }
  const std::size_t distance = key > position ? key - position : position - key;
  if (pattern.is_by_blocks(length)) {
    const std::size_t own = position / pattern.block_size;
    const std::size_t other = key / pattern.block_size;
    const std::size_t last = (length - 1) / pattern.block_size;
    return own == 0 || own == last || other + 1 == own || other == own || other == own + 1;
  }
  return !pattern.window || distance < *pattern.window;
}

// Returns the score of a key minus its product with the query, or -infinity.
double score_gain(const Extras& extras, std::size_t head, std::size_t position, std::size_t key,
                  std::size_t length) {
  double gain = 0.0;
  if (!extras.relative_bias.empty()) {
    const auto reach = static_cast<std::ptrdiff_t>(extras.reach);
    const std::ptrdiff_t apart = static_cast<std::ptrdiff_t>(key) - static_cast<std::ptrdiff_t>(position);
    const auto column = static_cast<std::size_t>(std::clamp(apart, -reach, reach) + reach);
    gain = extras.relative_bias[head * (2 * extras.reach + 1) + column];
  }
  const bool sees_all =
      extras.pattern.is_by_blocks(length) && extras.pattern.is_in_outer_block(position, length);
  if (!sees_all && !extras.key_bias.empty() && extras.key_bias[key] != -INFINITY)
    return gain + extras.key_bias[key];
  return shows(extras.pattern, position, key, length) ? gain : -INFINITY;
}

// Compares all tokens of a sequence with naive attention.
void expect_attention(std::uint64_t seed, std::size_t length, std::size_t block_size, const Extras& extras) {
  PagedSequences sequences(seed, {.kv_heads = kHeads, .key_dim = kKeyDim, .block_size = block_size},
                           {length});
  sequences.store(0, 0, length);
  const reference::RandomTensor query(sequences.random(), length, kHeads * kKeyDim, 3);
  const reference::RandomTensor out(sequences.random(), length, kHeads * kKeyDim, 1);
  const std::vector<std::size_t> kv_of_head = {0, 1};
  std::vector<kernels::AttentionSpan> spans = {{0, length, 0, sequences.table(0)}};
  if (!extras.key_bias.empty()) spans.front().key_bias = extras.key_bias.data();
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t scratch =
      kernels::attention_scratch(kv_of_head, sequences.cache().layout, sequences.table(0).size());
  std::vector<float> memory(threads * scratch);
  kernels::paged_attention({.query = query.view(),
                            .cache = sequences.cache(),
                            .spans = spans,
                            .kv_of_head = kv_of_head,
                            .pattern = extras.pattern,
                            .scale = static_cast<float>(kScale),
                            .relative_bias = extras.relative_bias,
                            .bias_reach = extras.reach,
                            .scratch = TensorView<float>(memory.data(), threads, scratch),
                            .out = out.view()});
  const reference::Matrix keys = sequences.cached_keys(0);
  const reference::Matrix values = sequences.cached_values(0);
  reference::Matrix expected(length, kHeads * kKeyDim);
  for (std::size_t token = 0; token < length; ++token) {
    for (std::size_t head = 0; head < kHeads; ++head) {
      double sum = 0.0;
      for (std::size_t key = 0; key < length; ++key) {
        double score = score_gain(extras, head, token, key, length);
        for (std::size_t d = head * kKeyDim; d < (head + 1) * kKeyDim; ++d)
          score += kScale * static_cast<double>(query.view()(token, d)) * keys(key, d);
        const double weight = std::exp(score);
        sum += weight;
        for (std::size_t d = head * kKeyDim; d < (head + 1) * kKeyDim; ++d)
          expected(token, d) += weight * values(key, d);
      }
      for (std::size_t d = head * kKeyDim; d < (head + 1) * kKeyDim; ++d) expected(token, d) /= sum;
    }
  }
  EXPECT_CLOSE(out.view(), expected, kBiasTolerance) << length << " tokens in blocks of " << block_size;
}

TEST(AttentionBias, BeyondItsReachIsTheFarthestDistances) {
  reference::Random random(3);
  for (int round = 0; round < 30; ++round) {
    Extras extras{.reach = random.integer(1, 40)};
    for (std::size_t i = 0; i < kHeads * (2 * extras.reach + 1); ++i)
      extras.relative_bias.push_back(static_cast<float>(random.integer(0, 400)) / 100.0F - 2.0F);
    if (random.coin()) extras.pattern.window = random.integer(1, 30);
    expect_attention(static_cast<std::uint64_t>(round), random.integer(1, 150), random.integer(1, 33),
                     extras);
  }
}

TEST(AttentionBias, KeysBeyondAWindowAreSeenByAllAndCountOnce) {
  reference::Random random(5);
  for (int round = 0; round < 30; ++round) {
    Extras extras;
    extras.pattern.window = random.integer(1, 12);
    const std::size_t length = random.integer(1, 150);
    extras.key_bias.assign(length, -INFINITY);
    for (std::size_t i = random.integer(0, 4); i > 0; --i)
      extras.key_bias[random.integer(0, length - 1)] = static_cast<float>(random.integer(0, 2));
    expect_attention(static_cast<std::uint64_t>(round), length, random.integer(1, 33), extras);
  }
}

// Longformer's window, also for sequences shorter than the dilation.
TEST(AttentionBias, ADilatedWindowSeesOnlyItsResidue) {
  reference::Random random(9);
  for (int round = 0; round < 40; ++round) {
    Extras extras;
    extras.pattern.window = random.integer(1, 12);
    extras.pattern.dilation = random.integer(2, 5);
    const std::size_t length = random.integer(1, 90);
    if (random.coin()) {
      extras.key_bias.assign(length, -INFINITY);
      extras.key_bias[random.integer(0, length - 1)] = 0.0F;
    }
    expect_attention(static_cast<std::uint64_t>(round), length, random.integer(1, 33), extras);
  }
}

// Between the window and distant keys, some splits of the cache are never read.
TEST(AttentionBias, KeysMaySeeFarBeyondManySplits) {
  for (const int threads : {1, 4}) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    Extras extras;
    extras.pattern.window = 40;
    constexpr std::size_t kLength = 1500;
    extras.key_bias.assign(kLength, -INFINITY);
    for (const std::size_t key : {0U, 1U, 1499U}) extras.key_bias[key] = 0.0F;
    expect_attention(1, kLength, 32, extras);
    extras.pattern = {.causal = false, .block_size = 64, .block_repeats = 3};
    std::fill(extras.key_bias.begin(), extras.key_bias.end(), -INFINITY);
    std::fill_n(extras.key_bias.begin(), 64, std::log1p(3.0F));
    std::fill(extras.key_bias.begin() + 23 * 64, extras.key_bias.end(), 0.0F);
    expect_attention(2, kLength, 32, extras);
    omp_set_num_threads(before);
  }
}

TEST(AttentionBias, BlocksSeeTheirNeighboursAndTheOuterBlocks) {
  reference::Random random(7);
  for (int round = 0; round < 30; ++round) {
    Extras extras;
    extras.pattern.block_size = random.integer(1, 6);
    extras.pattern.block_repeats = random.integer(0, 2);
    const std::size_t length = random.integer(1, 150);
    if (extras.pattern.is_by_blocks(length)) {
      extras.key_bias.assign(length, -INFINITY);
      for (std::size_t key = 0; key < length; ++key) {
        if (key / extras.pattern.block_size == (length - 1) / extras.pattern.block_size)
          extras.key_bias[key] = 0.0F;
        if (key < extras.pattern.block_size)
          extras.key_bias[key] = std::log1p(static_cast<float>(extras.pattern.block_repeats));
      }
    }
    expect_attention(static_cast<std::uint64_t>(round), length, random.integer(1, 33), extras);
  }
}

}  // namespace
}  // namespace tp

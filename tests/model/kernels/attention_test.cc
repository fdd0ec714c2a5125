#include "model/kernels/attention.h"

#include "tests/model/kernels/paged_sequences.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <omp.h>

namespace tp {
namespace {

using kernels::AttentionPattern;
using test::PagedSequences;

// The result is a mean of values in [-1, 1). Scores of up to head_dim * 0.75 round by some 1e-6, and so do
// the weights relative to each other.
constexpr double kTolerance = 4e-6;

// If the machine multiplies pairs of bf16 fast, the weights of values are rounded to bf16: by 2^-9 each, and
// so is the mean of values in [-1, 1).
constexpr double kPairTolerance = 0x1p-9 + kTolerance;

// With an int8 cache, queries are rounded to 16 bits if the machine multiplies bytes. The error is 2^-17 of
// 0.75 each, which is 9e-5 in a score of 80 of them (errors are independent; three deviations).
constexpr double kIntegerTolerance = 1e-4;

double tolerance_of(KvType type) {
  switch (type) {
    case KvType::bf16:
      return kPairTolerance;
    case KvType::int8:
      return kIntegerTolerance;
    default:
      return kTolerance;
  }
}

// kv_of_head for `heads` query heads: `group` heads per KV head, beginning with query head `first`.
std::vector<std::size_t> grouped(std::size_t heads, std::size_t group, std::size_t first = 0) {
  std::vector<std::size_t> kv_of_head;
  for (std::size_t head = 0; head < heads; ++head)
    kv_of_head.push_back((first + head) / group - first / group);
  return kv_of_head;
}

TEST(PagedAttention, EqualsTheReferenceForPromptsAroundTheBlockSize) {
  for (const std::size_t length : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 9U, 15U, 16U, 17U, 31U, 33U, 64U, 65U}) {
    PagedSequences sequences(length, {.kv_heads = 2, .key_dim = 8, .block_size = 4}, {length});
    sequences.expect_attention({length}, grouped(4, 2), {}, kTolerance);
  }
}

TEST(PagedAttention, EqualsTheReferenceForOneTokenAfterAnyContext) {
  for (const std::size_t length : {1U, 31U, 32U, 33U, 100U}) {
    PagedSequences sequences(length, {.kv_heads = 1, .key_dim = 16, .block_size = 32}, {length});
    sequences.expect_attention({1}, grouped(3, 3), {}, kTolerance);
  }
}

TEST(PagedAttention, EqualsTheReferenceForEveryHeadAndBlockSize) {
  for (const std::size_t head_dim : {2U, 6U, 8U, 12U, 15U, 16U, 17U, 64U, 80U}) {
    for (const std::size_t block_size : {1U, 3U, 16U, 21U, 32U}) {
      PagedSequences sequences(head_dim * 100 + block_size, {2, head_dim, block_size}, {37, 5});
      sequences.expect_attention({20, 5}, grouped(2, 1), {}, kTolerance);
    }
  }
}

// A rank's query heads may begin or end in the middle of a group: 2 + 3 + 1 heads, for example.
TEST(PagedAttention, TakesGroupsOfDifferentSizes) {
  const std::vector<std::vector<std::size_t>> layouts = {
      {0, 0, 1, 1, 1, 2}, {0}, {0, 1, 1}, {0, 0, 0, 0, 0, 0, 0, 1}, grouped(12, 4), grouped(7, 3, 2)};
  for (const auto& kv_of_head : layouts) {
    PagedSequences sequences(kv_of_head.size(), {kv_of_head.back() + 1, 8, 4}, {23, 9});
    sequences.expect_attention({11, 9}, kv_of_head, {}, kTolerance);
  }
}

// Covers all numbers of query heads per KV head up to more than a tile's rows. The scratch must suffice for
// each.
TEST(PagedAttention, TakesGroupsOfEverySize) {
  for (std::size_t group = 1; group <= 35; ++group) {
    for (const std::size_t kv_heads : {1U, 2U, 3U}) {
      PagedSequences sequences(group, {kv_heads, 4, 8}, {19});
      sequences.expect_attention({19}, grouped(group * kv_heads, group), {}, kTolerance);
    }
  }
}

TEST(PagedAttention, SeesTheLastTokensOfAWindow) {
  for (const std::size_t window : {1U, 2U, 3U, 4U, 5U, 8U, 16U, 17U, 39U, 40U, 41U, 1000U}) {
    PagedSequences sequences(window, {.kv_heads = 2, .key_dim = 6, .block_size = 4}, {40, 3, 21});
    sequences.expect_attention({40, 3, 1}, grouped(4, 2), {.causal = true, .window = window}, kTolerance);
  }
}

TEST(PagedAttention, SeesTheWholeSpanWithoutAMask) {
  for (const std::size_t length : {1U, 3U, 8U, 21U}) {
    PagedSequences sequences(length, {.kv_heads = 2, .key_dim = 6, .block_size = 4}, {length, 13});
    sequences.expect_attention({length, 4}, grouped(4, 2), {.causal = false, .window = std::nullopt},
                               kTolerance);
    // The window reaches as far after the token as before it.
    sequences.expect_attention({length, 4}, grouped(4, 2), {.causal = false, .window = 3}, kTolerance);
  }
}

TEST(PagedAttention, MixesPromptChunksAndSingleTokensInABatch) {
  reference::Random random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::size_t> lengths;
    std::vector<std::size_t> queries;
    for (std::size_t s = random.integer(1, 6); s > 0; --s) {
      lengths.push_back(random.integer(1, 90));
      queries.push_back(random.coin() ? 1 : random.integer(1, lengths.back()));
    }
    const std::size_t group = random.integer(1, 5);
    const std::size_t kv_heads = random.integer(1, 3);
    AttentionPattern pattern;
    if (random.coin()) pattern.window = random.integer(1, 50);
    PagedSequences sequences(static_cast<std::uint64_t>(round),
                             {kv_heads, 2 * random.integer(1, 12), random.integer(1, 33)}, lengths);
    sequences.expect_attention(queries, grouped(kv_heads * group, group), pattern, kTolerance);
  }
}

// Llama 4's and Reformer's patterns. Chunks are not multiples of blocks, and tiles contain tokens of several
// chunks.
TEST(PagedAttention, SeesTheTokensOfItsOwnChunkAndOfThoseBefore) {
  reference::Random random(23);
  for (int round = 0; round < 40; ++round) {
    AttentionPattern pattern{.causal = random.integer(0, 3) != 0};
    pattern.chunk = random.integer(1, 40);
    pattern.chunks_before = random.integer(0, 2);
    if (random.integer(0, 3) == 0) pattern.window = random.integer(1, 50);
    const std::size_t length = random.integer(1, 150);
    PagedSequences sequences(static_cast<std::uint64_t>(round), {2, 6, random.integer(1, 20)}, {length, 7});
    sequences.expect_attention({random.integer(1, length), 1}, grouped(4, 2), pattern, kTolerance);
  }
}

// GPT-OSS's sinks, in every kind of cache, for contexts of one or several splits, and with sinks far above or
// below all scores.
TEST(PagedAttention, LetsSinksTakeTheirShareOfTheWeights) {
  const std::vector<float> sinks = {-2.0F, 0.0F, 3.0F, 90.0F, -90.0F, 1.0F};
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    const double tolerance = tolerance_of(type);
    PagedSequences sequences(8, {.kv_heads = 2, .key_dim = 32, .block_size = 32, .type = type},
                             {150, 9, 1400});
    sequences.expect_attention({60, 1, 1}, grouped(6, 3), {}, tolerance, 0.0F, {}, {}, sinks);
    sequences.expect_attention({9, 9, 2}, grouped(6, 3), {.window = 30}, tolerance, 2.0F, {}, {}, sinks);
  }
}

TEST(PagedAttention, CapsScoresSoftly) {
  for (const float cap : {0.5F, 2.0F, 50.0F}) {
    PagedSequences sequences(5, {.kv_heads = 2, .key_dim = 16, .block_size = 16}, {70});
    sequences.expect_attention({33}, grouped(4, 2), {}, kTolerance, cap);
  }
}

TEST(PagedAttention, AddsABiasThatFallsWithTheDistance) {
  const std::vector<float> slopes = {0.5F, 0.25F, 0.0625F, 0.0F};
  PagedSequences sequences(6, {.kv_heads = 2, .key_dim = 8, .block_size = 16}, {150, 9});
  sequences.expect_attention({60, 1}, grouped(4, 2), {}, kTolerance, 0.0F, slopes);
  sequences.expect_attention({60, 1}, grouped(4, 2), {.window = 30}, kTolerance, 3.0F, slopes);
}

// The cases have whole tiles of keys and positions for a matrix unit, and rows that fill no tile.
TEST(PagedAttention, EqualsTheReferenceForWholeTilesOfABf16Cache) {
  for (const std::size_t head_dim : {32U, 64U, 96U}) {
    for (const std::size_t block_size : {32U, 64U, 128U, 160U}) {
      PagedSequences sequences(head_dim, {2, head_dim, block_size, KvType::bf16}, {67, 300, 1});
      sequences.expect_attention({1, 3, 1}, grouped(4, 2), {}, kPairTolerance);
      sequences.expect_attention({67, 130, 1}, grouped(6, 3), {}, kPairTolerance);
      sequences.expect_attention({50, 33, 1}, grouped(2, 1), {.window = 21}, kPairTolerance, 2.0F);
      sequences.expect_attention({50, 33, 1}, grouped(4, 2), {.causal = false, .window = {}}, kPairTolerance);
      sequences.expect_attention({9, 40, 1}, grouped(4, 2), {.chunk = 9, .chunks_before = 1}, kPairTolerance);
    }
  }
  // More query heads on one KV head than a tile has rows, and values that are not whole vectors.
  PagedSequences sequences(
      1, {.kv_heads = 1, .key_dim = 32, .block_size = 32, .type = KvType::bf16, .value_dim = 20}, {50});
  sequences.expect_attention({50}, grouped(71, 71), {}, kPairTolerance);
}

TEST(PagedAttention, EqualsTheReferenceOnABf16CachesRoundedKeysAndValues) {
  for (const std::size_t head_dim : {2U, 7U, 16U, 33U, 64U, 80U}) {
    for (const std::size_t block_size : {1U, 7U, 16U, 32U, 48U}) {
      PagedSequences sequences(head_dim, {2, head_dim, block_size, KvType::bf16}, {67, 300});
      sequences.expect_attention({1, 3}, grouped(4, 2), {}, kPairTolerance);
      sequences.expect_attention({50, 33}, grouped(4, 2), {}, kPairTolerance);
      sequences.expect_attention({50, 33}, grouped(6, 3), {.window = 21}, kPairTolerance);
      sequences.expect_attention({50, 33}, grouped(4, 2), {.causal = false, .window = {}}, kPairTolerance);
    }
  }
}

TEST(PagedAttention, EqualsTheReferenceOnAnInt8CachesRoundedKeysAndValues) {
  for (const std::size_t head_dim : {2U, 7U, 16U, 33U, 64U, 80U}) {
    for (const std::size_t block_size : {1U, 7U, 16U, 32U, 48U}) {
      PagedSequences sequences(head_dim, {2, head_dim, block_size, KvType::int8}, {67, 300});
      sequences.expect_attention({1, 3}, grouped(4, 2), {}, kIntegerTolerance);
      sequences.expect_attention({50, 33}, grouped(4, 2), {}, kIntegerTolerance);
      sequences.expect_attention({50, 33}, grouped(6, 3), {.window = 21}, kIntegerTolerance);
    }
  }
}

TEST(PagedAttention, TakesValuesOfAnotherWidthThanKeys) {
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    PagedSequences sequences(
        9, {.kv_heads = 2, .key_dim = 24, .block_size = 16, .type = type, .value_dim = 18}, {100});
    sequences.expect_attention({1}, grouped(4, 2), {}, kPairTolerance);
    sequences.expect_attention({100}, grouped(4, 2), {}, kPairTolerance);
  }
}

// One KV head and one tile, but two threads: each reads half of the context.
TEST(PagedAttention, SplitsALongContextAmongThreads) {
  for (const std::size_t length : {1023U, 1024U, 1025U, 2500U}) {
    for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
      PagedSequences sequences(length, {.kv_heads = 1, .key_dim = 16, .block_size = 32, .type = type},
                               {length});
      const double tolerance = tolerance_of(type);
      sequences.expect_attention({1}, grouped(3, 3), {}, tolerance);
      sequences.expect_attention({2}, grouped(3, 3), {.window = 1024}, tolerance);
    }
  }
}

TEST(PagedAttention, ComputesBidirectionalAndCausalSequencesTogether) {
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    for (const std::optional<std::size_t> window :
         {std::optional<std::size_t>(), std::optional<std::size_t>(5)}) {
      PagedSequences sequences(1, {.kv_heads = 2, .key_dim = 32, .block_size = 32, .type = type},
                               {40, 33, 70, 1});
      const double tolerance = tolerance_of(type);
      sequences.expect_attention({40, 33, 3, 1}, grouped(4, 2), {.window = window}, tolerance, 0.0F, {},
                                 {true, false, false, true});
    }
  }
}

// The window of a tile's first token begins at the end of a split, and that of its last token touches two
// more splits than a window has.
TEST(PagedAttention, SplitsTheWindowsOfSeveralTokensAmongThreads) {
  const int threads = omp_get_max_threads();
  omp_set_num_threads(4);
  PagedSequences sequences(0, {.kv_heads = 1, .key_dim = 16, .block_size = 32}, {4157});
  sequences.expect_attention({64}, {0}, {.window = 1535}, kTolerance);
  omp_set_num_threads(threads);
}

// Long enough that rows see whole steps.
TEST(PagedAttention, CapsScoresOfWholeSteps) {
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    PagedSequences sequences(5, {.kv_heads = 2, .key_dim = 32, .block_size = 32, .type = type}, {400});
    sequences.expect_attention({150}, grouped(4, 2), {}, tolerance_of(type), 2.0F);
  }
}

// With scores of some hundreds, the exponentials' arguments must be relative to the largest score.
TEST(PagedAttention, SurvivesScoresFarFromZero) {
  PagedSequences sequences(3, {.kv_heads = 1, .key_dim = 8, .block_size = 4}, {30});
  for (std::size_t position = 0; position < 30; ++position) {
    for (std::size_t d = 0; d < 8; ++d) sequences.key(0)(position, d) *= 200.0F;
  }
  // Scores round by 1e-5 here, and the weights by as much.
  sequences.expect_attention({30}, grouped(2, 2), {}, 4e-4);
}

// An int8 cache can't represent NaN.
TEST(PagedAttention, GivesNanForANanQueryAndANumberForATinyOne) {
  const kernels::KvLayout layout{KvType::int8, 1, 32, 32, 32};
  std::vector<std::byte> memory(layout.block_bytes());
  const kernels::PagedCache cache{layout, memory.data(), layout.block_bytes()};
  const std::vector<std::int32_t> table = {0};
  const std::vector<kernels::AttentionSpan> spans = {{0, 5, 0, table}};
  std::vector<float> query(5 * 32, 0.5F);
  const std::vector<float> rest(5 * 32, 0.25F);
  kernels::store_keys_values({rest.data(), 5, 32}, {rest.data(), 5, 32}, spans, cache);
  query[32 + 7] = NAN;
  query[64 + 31] = INFINITY;
  std::fill_n(query.data() + 96, 32, NAN);
  std::fill_n(query.data() + 128, 32, 1e-37F);  // its scale has no inverse
  const std::vector<std::size_t> kv_of_head = {0};
  const std::size_t columns = kernels::attention_scratch(kv_of_head, layout, 1);
  std::vector<float> scratch(static_cast<std::size_t>(omp_get_max_threads()) * columns);
  std::vector<float> out(5 * 32);
  kernels::paged_attention({.query = {query.data(), 5, 32},
                            .cache = cache,
                            .spans = spans,
                            .kv_of_head = kv_of_head,
                            .pattern = {},
                            .scratch = {scratch.data(), scratch.size() / columns, columns},
                            .out = {out.data(), 5, 32}});
  EXPECT_NEAR(out[0], 0.25F, 1e-3);
  EXPECT_TRUE(std::isnan(out[32]));
  EXPECT_TRUE(std::isnan(out[64]));
  EXPECT_TRUE(std::isnan(out[96]));
  EXPECT_NEAR(out[128], 0.25F, 1e-3);
}

TEST(PagedAttention, SharedByThreadsEqualsTheReference) {
  PagedSequences sequences(11, {.kv_heads = 3, .key_dim = 32, .block_size = 16}, {200, 90});
  sequences.expect_attention({150, 1}, grouped(12, 4), {}, kTolerance);
}

}  // namespace
}  // namespace tp

// Attention over latents, in which a value is the beginning of its key.
#include "tests/model/kernels/paged_sequences.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using test::CacheShape;
using test::PagedSequences;

// As in attention_test: means of values in [-1, 1), scores of up to key_dim * 0.75.
constexpr double kTolerance = 8e-6;

// If the machine multiplies pairs of bf16 fast, the weights of values are rounded to bf16. The error is 2^-9
// for values up to 1. For int8, it is 2^-8, because weights are rounded together with the scales of values,
// including the highest score's weight. Queries in these tests are exact in bf16.
double tolerance_of(KvType type) {
  const double rounding = type == KvType::f32 ? 0.0 : type == KvType::bf16 ? 0x1p-9 : 0x1p-8;
  return rounding + kTolerance;
}

// All heads read the one latent of a token.
std::vector<std::size_t> heads(std::size_t count) { return std::vector<std::size_t>(count, 0); }

TEST(LatentAttentionKernel, EqualsTheReferenceForEverySizeTypeAndBlock) {
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    for (const auto& [value_dim, rope_dim] : {std::pair{1U, 2U},
                                              {15U, 2U},
                                              {16U, 8U},
                                              {17U, 16U},
                                              {32U, 8U},
                                              {32U, 32U},
                                              {40U, 18U},
                                              {64U, 64U},
                                              {100U, 12U}}) {
      for (const std::size_t block_size : {1U, 3U, 16U, 21U, 32U}) {
        SCOPED_TRACE(fmt::format("{} + {}, blocks of {}", value_dim, rope_dim, block_size));
        const CacheShape shape{1, value_dim + rope_dim, block_size, type, value_dim, true};
        PagedSequences sequences(value_dim * 100 + block_size, shape, {37, 5, 20});
        sequences.expect_attention({20, 5, 1}, heads(3), {}, tolerance_of(type));
      }
    }
  }
}

// Covers numbers of rows around those of a pass and of a tile.
TEST(LatentAttentionKernel, TakesAnyNumberOfHeads) {
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    for (const std::size_t count : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 16U, 63U, 64U, 65U, 128U}) {
      for (const std::size_t key_dim : {40U, 64U}) {
        PagedSequences sequences(count, {1, key_dim, 16, type, 32, true}, {45, 9});
        sequences.expect_attention({3, 9}, heads(count), {}, tolerance_of(type));
      }
    }
  }
}

// With two threads and one tile, the context is split.
TEST(LatentAttentionKernel, EqualsTheReferenceForOneTokenAfterALongContext) {
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    for (const std::size_t key_dim : {40U, 64U}) {
      PagedSequences sequences(1, {1, key_dim, 32, type, 32, true}, {2000});
      sequences.expect_attention({1}, heads(8), {}, tolerance_of(type));
    }
  }
}

// A value's scale divided by the rest's would be infinite or NaN.
TEST(LatentAttentionKernel, AcceptsARestOfZerosOrTinyValues) {
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    for (const float magnitude : {0.0F, 1e-36F}) {
      PagedSequences sequences(1, {1, 64, 32, type, 32, true}, {50});
      for (std::size_t t = 0; t < 50; ++t) std::fill_n(sequences.key(0).row(t), 32, magnitude);
      std::fill_n(sequences.value(0).row(7), 32, 0.0F);
      sequences.expect_attention({3}, heads(9), {}, tolerance_of(type));
    }
  }
}

TEST(LatentAttentionKernel, GivesTheSameResultForAPromptInChunks) {
  constexpr std::size_t kLength = 41;
  for (const auto& [type, value_dim] :
       {std::pair{KvType::f32, 48U}, {KvType::bf16, 48U}, {KvType::int8, 48U}, {KvType::int8, 32U}}) {
    const CacheShape shape{1, 64, 4, type, value_dim, true};
    PagedSequences whole(4, shape, {kLength});
    const reference::RandomTensor query(whole.random(), kLength, 3 * 64);
    const reference::RandomTensor expected(whole.random(), kLength, 3 * value_dim);
    whole.store(0, 0, kLength);
    whole.attend(query.view(), {{0, kLength, 0, whole.table(0)}}, heads(3), {}, whole.table(0).size(),
                 expected.view());
    for (const std::size_t chunk : {1U, 2U, 3U, 4U, 7U, 16U, 40U}) {
      PagedSequences sequences(4, shape, {kLength});
      const reference::RandomTensor out(whole.random(), kLength, 3 * value_dim);
      for (std::size_t begin = 0; begin < kLength; begin += chunk) {
        const std::size_t count = std::min(chunk, kLength - begin);
        sequences.store(0, begin, begin + count);
        sequences.attend(query.view().rows_from(begin, count), {{0, count, begin, sequences.table(0)}},
                         heads(3), {}, sequences.table(0).size(), out.view().rows_from(begin, count));
      }
      EXPECT_EQ(out.memory(), expected.memory()) << "chunks of " << chunk << ", " << name_of(type);
    }
  }
}

// DeepSeek-V3 caches 512 + 64 numbers per token. 128 heads of keys (128 + 64) and values (128) would be
// 40,960.
TEST(LatentAttentionKernel, CacheIsManyTimesSmallerThanThatOfItsHeads) {
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    const kernels::KvLayout latent{type, 1, 32, 576, 512, true};
    const kernels::KvLayout heads_apart{type, 128, 32, 192, 128};
    EXPECT_LE(latent.block_bytes(), heads_apart.block_bytes() * 15 / 1000) << name_of(type);
    // The cache contains only the numbers, and two scales for int8.
    const std::size_t size = type == KvType::f32 ? 4 : type == KvType::bf16 ? 2 : 1;
    EXPECT_EQ(latent.block_bytes(), 32 * (576 * size + (type == KvType::int8 ? 8 : 0))) << name_of(type);
  }
}

}  // namespace
}  // namespace tp

#include "model/kernels/attention.h"
#include "tests/model/kernels/paged_sequences.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::CacheShape;
using test::PagedSequences;

constexpr CacheShape kShape{.kv_heads = 2, .key_dim = 6, .block_size = 4};

constexpr KvType kTypes[] = {KvType::f32, KvType::bf16, KvType::int8};

// Half a unit in the last place of a type's elements, for rows with a largest magnitude of at most 1.
double rounding(KvType type) {
  switch (type) {
    case KvType::f32:
      return 0.0;
    case KvType::bf16:
      return 0x1p-9;
    default:
      return 0.5 / 127 + 1e-6;
  }
}

TEST(StoreKeysValues, PutsEveryPositionIntoItsSlotRoundedToTheType) {
  for (const KvType type : kTypes) {
    for (const std::size_t block_size : {1U, 4U, 5U, 16U, 17U, 32U, 33U}) {
      for (const std::size_t key_dim : {2U, 5U, 16U}) {
        PagedSequences sequences(
            1, {.kv_heads = 2, .key_dim = key_dim, .block_size = block_size, .type = type, .value_dim = 6},
            {41, 4});
        sequences.store(0, 0, 5);
        sequences.store(0, 5, 41);
        sequences.store(1, 0, 4);
        for (std::size_t s = 0; s < 2; ++s) {
          EXPECT_CLOSE(sequences.key(s), sequences.cached_keys(s), rounding(type))
              << name_of(type) << " in blocks of " << block_size << ", sequence " << s;
          EXPECT_CLOSE(sequences.value(s), sequences.cached_values(s), rounding(type))
              << name_of(type) << " in blocks of " << block_size << ", sequence " << s;
        }
      }
    }
  }
}

TEST(StoreKeysValues, TouchesNoOtherSlot) {
  PagedSequences sequences(1, kShape, {11, 4});
  sequences.store(0, 0, 11);
  sequences.store(1, 0, 3);
  std::size_t numbers = 0;
  for (std::size_t i = 0; i < sequences.memory().size(); i += sizeof(float)) {
    float value = 0.0F;
    std::memcpy(&value, sequences.memory().data() + i, sizeof(value));
    numbers += std::isnan(value) ? 0 : 1;
  }
  EXPECT_EQ(numbers, (11 + 3) * 2 * kShape.kv_heads * kShape.key_dim);
}

TEST(StoreKeysValues, KeepsARowOfZeros) {
  for (const KvType type : kTypes) {
    PagedSequences sequences(1, {.kv_heads = 1, .key_dim = 6, .block_size = 4, .type = type}, {3});
    std::fill_n(sequences.key(0).row(1), 6, 0.0F);
    std::fill_n(sequences.value(0).row(1), 6, 0.0F);
    sequences.store(0, 0, 3);
    EXPECT_CLOSE(sequences.key(0).rows_from(1, 1), reference::Matrix(sequences.key(0).rows_from(1, 1)), 0.0);
    EXPECT_CLOSE(sequences.key(0), sequences.cached_keys(0), rounding(type));
    EXPECT_CLOSE(sequences.value(0), sequences.cached_values(0), rounding(type));
  }
}

TEST(StoreKeysValues, StoresABatchOfSeveralSequences) {
  PagedSequences whole(2, kShape, {9, 6});
  whole.store(0, 0, 9);
  whole.store(1, 0, 6);
  PagedSequences batched(2, kShape, {9, 6});
  reference::Random random(3);
  constexpr std::size_t kWidth = kShape.kv_heads * kShape.key_dim;
  const reference::RandomTensor key(random, 15, kWidth);
  const reference::RandomTensor value(random, 15, kWidth);
  for (std::size_t row = 0; row < 15; ++row) {
    const std::size_t s = row < 9 ? 0 : 1;
    std::memcpy(key.view().row(row), batched.key(s).row(row - 9 * s), kWidth * sizeof(float));
    std::memcpy(value.view().row(row), batched.value(s).row(row - 9 * s), kWidth * sizeof(float));
  }
  const std::vector<kernels::AttentionSpan> spans = {{0, 9, 0, batched.table(0)},
                                                     {9, 6, 0, batched.table(1)}};
  kernels::store_keys_values(key.view(), value.view(), spans, batched.cache());
  ASSERT_EQ(whole.memory().size(), batched.memory().size());
  EXPECT_EQ(std::memcmp(whole.memory().data(), batched.memory().data(), whole.memory().size()), 0);
}

// A prompt in chunks of any size gives the same bits, because a token's arithmetic does not depend on other
// tokens.
TEST(PagedAttention, GivesTheSameResultForAPromptInChunks) {
  constexpr std::size_t kLength = 41;
  const std::vector<std::size_t> kv_of_head = {0, 0, 1, 1, 1};
  const std::size_t width = kv_of_head.size() * kShape.key_dim;
  PagedSequences whole(4, kShape, {kLength});
  const reference::RandomTensor query(whole.random(), kLength, width);
  const reference::RandomTensor expected(whole.random(), kLength, width);
  whole.store(0, 0, kLength);
  whole.attend(query.view(), {{0, kLength, 0, whole.table(0)}}, kv_of_head, {}, whole.table(0).size(),
               expected.view());
  for (const std::size_t chunk : {1U, 2U, 3U, 4U, 7U, 16U, 40U}) {
    PagedSequences sequences(4, kShape, {kLength});
    const reference::RandomTensor out(whole.random(), kLength, width);
    for (std::size_t begin = 0; begin < kLength; begin += chunk) {
      const std::size_t count = std::min(chunk, kLength - begin);
      sequences.store(0, begin, begin + count);
      sequences.attend(query.view().rows_from(begin, count), {{0, count, begin, sequences.table(0)}},
                       kv_of_head, {}, sequences.table(0).size(), out.view().rows_from(begin, count));
    }
    EXPECT_EQ(out.memory(), expected.memory()) << "chunks of " << chunk;
  }
}

// A token sees its block and earlier blocks, as if each block saw all positions up to its end.
TEST(PagedAttention, ByBlocksSeesEachBlockUpToItsEnd) {
  constexpr std::size_t kLength = 41;
  const std::vector<std::size_t> kv_of_head = {0, 0, 1, 1, 1};
  const std::size_t width = kv_of_head.size() * kShape.key_dim;
  for (const std::size_t block : {1U, 2U, 4U, 6U, 16U, 41U, 100U}) {
    PagedSequences sequences(4, kShape, {kLength});
    const reference::RandomTensor query(sequences.random(), kLength, width);
    const reference::RandomTensor found(sequences.random(), kLength, width);
    const reference::RandomTensor expected(sequences.random(), kLength, width);
    sequences.store(0, 0, kLength);
    kernels::AttentionSpan span{0, kLength, 0, sequences.table(0)};
    span.causal_block = block;
    sequences.attend(query.view(), {span}, kv_of_head, {}, sequences.table(0).size(), found.view());
    for (std::size_t begin = 0; begin < kLength; begin += block) {
      const std::size_t count = std::min(block, kLength - begin);
      sequences.attend(query.view().rows_from(begin, count), {{0, count, begin, sequences.table(0), true}},
                       kv_of_head, {}, sequences.table(0).size(), expected.view().rows_from(begin, count));
    }
    EXPECT_EQ(found.memory(), expected.memory()) << "blocks of " << block;
  }
}

TEST(AttentionScratch, GrowsWithTheSequenceOnlyByItsBlockTable) {
  const kernels::KvLayout layout{KvType::bf16, 2, 32, 64, 64};
  const std::vector<std::size_t> kv_of_head = {0, 0, 0, 0, 1, 1, 1, 1};
  const std::size_t short_one = kernels::attention_scratch(kv_of_head, layout, 1);
  const std::size_t long_one = kernels::attention_scratch(kv_of_head, layout, 1001);
  // A pointer of eight bytes per block, plus rounding to a cache line.
  EXPECT_LE(long_one - short_one, 1000 * 2 + 16);
}

TEST(AttentionScratch, DependsOnTheHeadsThatShareAKvHeadNotOnAllOfThem) {
  const kernels::KvLayout layout{KvType::bf16, 32, 32, 64, 64};
  std::vector<std::size_t> kv_of_head;
  for (std::size_t head = 0; head < 128; ++head) kv_of_head.push_back(head / 4);
  EXPECT_EQ(kernels::attention_scratch(kv_of_head, layout, 1),
            kernels::attention_scratch(std::span(kv_of_head).first(4), layout, 1));
}

TEST(KvLayout, TakesTheBytesOfItsElements) {
  // 2 heads x 32 positions x (64 + 64) elements, and two scales per position.
  const auto block_bytes = [](KvType type) { return kernels::KvLayout{type, 2, 32, 64, 64}.block_bytes(); };
  EXPECT_EQ(block_bytes(KvType::f32), 2 * 32 * 128 * 4);
  EXPECT_EQ(block_bytes(KvType::bf16), 2 * 32 * 128 * 2);
  EXPECT_EQ(block_bytes(KvType::int8), 2 * 32 * (128 + 2 * 4));
}

}  // namespace
}  // namespace tp

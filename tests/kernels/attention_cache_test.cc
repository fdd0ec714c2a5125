#include "model/kernels/attention.h"
#include "tests/kernels/paged_sequences.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::CacheShape;
using test::PagedSequences;

constexpr CacheShape kShape{.kv_heads = 2, .head_dim = 6, .block_size = 4};

TEST(StoreKeysValues, PutsEveryPositionIntoItsSlotAndTouchesNoOther) {
  PagedSequences sequences(1, kShape, {11, 4});
  sequences.store(0, 0, 5);
  sequences.store(0, 5, 11);
  sequences.store(1, 0, 3);
  const kernels::PagedCache& cache = sequences.cache();
  std::size_t written = 0;
  for (std::size_t s = 0; s < 2; ++s) {
    const std::size_t length = s == 0 ? 11 : 3;
    for (std::size_t position = 0; position < length; ++position) {
      const auto block = static_cast<std::size_t>(sequences.table(s)[position / kShape.block_size]);
      const std::size_t slot = position % kShape.block_size;
      for (std::size_t head = 0; head < kShape.kv_heads; ++head) {
        for (std::size_t d = 0; d < kShape.head_dim; ++d) {
          EXPECT_EQ(cache.keys(block, head)[d * kShape.block_size + slot],
                    sequences.key(s)(position, head * kShape.head_dim + d));
          EXPECT_EQ(cache.values(block, head)[slot * kShape.head_dim + d],
                    sequences.value(s)(position, head * kShape.head_dim + d));
          written += 2;
        }
      }
    }
  }
  std::size_t numbers = 0;
  for (const float value : sequences.memory()) numbers += std::isnan(value) ? 0 : 1;
  EXPECT_EQ(numbers, written);
}

TEST(StoreKeysValues, TakesABatchOfSeveralSequences) {
  PagedSequences whole(2, kShape, {9, 6});
  whole.store(0, 0, 9);
  whole.store(1, 0, 6);
  PagedSequences batched(2, kShape, {9, 6});
  reference::Random random(3);
  const reference::RandomTensor key(random, 15, batched.kv_size());
  const reference::RandomTensor value(random, 15, batched.kv_size());
  for (std::size_t row = 0; row < 15; ++row) {
    const std::size_t s = row < 9 ? 0 : 1;
    std::memcpy(key.view().row(row), batched.key(s).row(row - 9 * s), batched.kv_size() * sizeof(float));
    std::memcpy(value.view().row(row), batched.value(s).row(row - 9 * s), batched.kv_size() * sizeof(float));
  }
  const std::vector<kernels::AttentionSpan> spans = {{0, 9, 0, batched.table(0)},
                                                     {9, 6, 0, batched.table(1)}};
  kernels::store_keys_values(key.view(), value.view(), spans, batched.cache());
  ASSERT_EQ(whole.memory().size(), batched.memory().size());
  EXPECT_EQ(
      std::memcmp(whole.memory().data(), batched.memory().data(), whole.memory().size() * sizeof(float)), 0);
}

// A prompt in chunks of any size gives the same attention, to the bit: a token's arithmetic does not depend
// on the tokens beside it.
TEST(PagedAttention, OfAPromptInChunksEqualsThatOfTheWholePrompt) {
  constexpr std::size_t kLength = 41;
  const std::vector<std::size_t> kv_of_head = {0, 0, 1, 1, 1};
  const std::size_t width = kv_of_head.size() * kShape.head_dim;
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

TEST(AttentionScratch, DoesNotGrowWithTheLengthOfTheSequenceButForItsBlockTable) {
  const std::size_t short_one = kernels::attention_scratch(8, 64, 32, 1);
  const std::size_t long_one = kernels::attention_scratch(8, 64, 32, 1001);
  // Two pointers of eight bytes a block, plus rounding to a cache line.
  EXPECT_LE(long_one - short_one, 1000 * 2 * 2 + 16);
}

}  // namespace
}  // namespace tp

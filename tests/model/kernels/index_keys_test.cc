// Scores of index keys, the choice of the highest, and copies of the chosen latents.
#include "model/kernels/index_keys.h"

#include "model/kernels/half.h"
#include "tests/reference/index_keys.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <omp.h>

namespace tp {
namespace {

using kernels::AttentionSpan;
using kernels::KvLayout;
using reference::Random;
using reference::RandomTensor;

// A sequence whose blocks lie in the cache in descending order. Unwritten memory contains NaN.
class IndexedSequence {
 public:
  IndexedSequence(const KvLayout& layout, std::size_t tokens)
      : layout_(layout),
        tokens_(tokens),
        table_((tokens + layout.block_size - 1) / layout.block_size),
        memory_(table_.size() * layout.block_bytes(), std::byte{0xff}) {
    for (std::size_t i = 0; i < table_.size(); ++i)
      table_[i] = static_cast<std::int32_t>(table_.size() - 1 - i);
  }

  kernels::PagedCache cache() { return {layout_, memory_.data(), layout_.block_bytes()}; }
  // The last `tokens` tokens.
  AttentionSpan last(std::size_t tokens) const { return {0, tokens, tokens_ - tokens, table_}; }
  AttentionSpan all() const { return last(tokens_); }
  const std::vector<std::int32_t>& table() const { return table_; }

 private:
  KvLayout layout_;
  std::size_t tokens_;
  std::vector<std::int32_t> table_;
  std::vector<std::byte> memory_;
};

KvLayout layout_of(KvType type, std::size_t block_size, std::size_t index_dim) {
  return {.type = type,
          .kv_heads = 1,
          .block_size = block_size,
          .key_dim = 40,
          .value_dim = 24,
          .latent = true,
          .index_dim = index_dim};
}

struct IndexInputs {
  RandomTensor key;     // [positions, dim]
  RandomTensor query;   // [tokens, heads * dim]
  RandomTensor weight;  // [tokens, heads]

  IndexInputs(std::size_t positions, std::size_t tokens, std::size_t heads, std::size_t dim)
      : IndexInputs(Random(dim), positions, tokens, heads, dim) {}

 private:
  IndexInputs(Random random, std::size_t positions, std::size_t tokens, std::size_t heads, std::size_t dim)
      : key(random, positions, dim),
        query(random, tokens, heads * dim, 3),
        weight(random, tokens, heads, 5) {}
};

// Returns the scores of the sequence's last tokens: [tokens, positions].
std::vector<float> scores_of(const KvLayout& layout, const IndexInputs& inputs, std::size_t first,
                             std::size_t tokens) {
  const std::size_t positions = inputs.key.view().rows();
  IndexedSequence sequence(layout, positions);
  const AttentionSpan all = sequence.all();
  kernels::store_index_keys(inputs.key.view(), {&all, 1}, sequence.cache());
  std::vector<float> scores(tokens * positions, NAN);
  std::vector<float> scratch(static_cast<std::size_t>(omp_get_max_threads()) *
                             kernels::index_scratch(layout, tokens));
  kernels::index_scores(
      {inputs.query.view().rows_from(first, tokens), inputs.weight.view().rows_from(first, tokens)},
      sequence.last(tokens), kernels::OwnedKeys(sequence.last(tokens), sequence.cache()), sequence.cache(),
      {scratch.data(), static_cast<std::size_t>(omp_get_max_threads()),
       kernels::index_scratch(layout, tokens)},
      {scores.data(), tokens, positions});
  return scores;
}

// Sums of some hundreds of products below 1; weights are below 1.
constexpr double kScoreTolerance = 1e-4;

// A row of keys as the cache contains it.
std::vector<float> cached(const float* key, std::size_t dim, KvType type) {
  std::vector<float> row(key, key + dim);
  if (type == KvType::f32) return row;
  for (float& element : row) element = kernels::bf16_to_float(kernels::float_to_bf16(element));
  return row;
}

TEST(IndexKeys, HaveTheReferencesScoresForEverySizeTypeAndBlock) {
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    for (const std::size_t block_size : {1U, 3U, 16U, 21U, 32U, 48U}) {
      for (const std::size_t heads : {1U, 2U, 3U, 7U, 8U, 9U, 16U, 21U}) {
        const std::size_t dim = heads == 8 ? 128 : 1 + 5 * heads;
        SCOPED_TRACE(fmt::format("blocks of {}, {} heads of {}", block_size, heads, dim));
        const IndexInputs inputs(70, 3, heads, dim);
        const std::vector<float> scores = scores_of(layout_of(type, block_size, dim), inputs, 0, 3);
        for (std::size_t i = 0; i < scores.size(); ++i) {
          const std::size_t token = i / 70;
          const double expected = reference::index_score({inputs.query.view().row(token), heads * dim},
                                                         {inputs.weight.view().row(token), heads},
                                                         cached(inputs.key.view().row(i % 70), dim, type));
          ASSERT_NEAR(scores[i], expected, kScoreTolerance) << token << ", " << i % 70;
        }
      }
    }
  }
}

// Each KV head has a copy of the keys. Products without rectification may be negative.
TEST(IndexKeys, HaveTheSameScoresInEveryKvHead) {
  constexpr std::size_t kPositions = 50;
  const IndexInputs inputs(kPositions, 1, 1, 24);
  KvLayout layout = layout_of(KvType::bf16, 8, 24);
  layout.kv_heads = 3;
  IndexedSequence sequence(layout, kPositions);
  const AttentionSpan all = sequence.all();
  kernels::store_index_keys(inputs.key.view(), {&all, 1}, sequence.cache());
  std::vector<float> scratch(static_cast<std::size_t>(omp_get_max_threads()) *
                             kernels::index_scratch(layout, 1));
  for (std::size_t head = 0; head < layout.kv_heads; ++head) {
    const kernels::PagedCache cache = sequence.cache().of_head(head);
    const float weight = 1.0F;
    std::vector<float> scores(kPositions);
    kernels::index_scores(
        {inputs.query.view(), {&weight, 1, 1}, false}, sequence.last(1),
        kernels::OwnedKeys(sequence.last(1), cache), cache,
        {scratch.data(), static_cast<std::size_t>(omp_get_max_threads()), kernels::index_scratch(layout, 1)},
        {scores.data(), 1, kPositions});
    EXPECT_LT(*std::ranges::min_element(scores), 0.0F);
    for (std::size_t i = 0; i < kPositions; ++i) {
      const std::vector<float> key = cached(inputs.key.view().row(i), 24, KvType::bf16);
      double expected = 0.0;
      for (std::size_t d = 0; d < key.size(); ++d)
        expected += static_cast<double>(inputs.query.view().row(0)[d]) * static_cast<double>(key[d]);
      ASSERT_NEAR(scores[i], expected, kScoreTolerance) << head << ", " << i;
    }
  }
}

// The key of a pool is in the block of the pool's last position, and pools may begin in an earlier block.
TEST(IndexKeys, OfPoolsHaveTheReferencesScoresForEverySizeOfBlocksAndPools) {
  constexpr std::size_t kPositions = 70;
  constexpr std::size_t kDim = 12;
  for (const std::size_t block_size : {1U, 3U, 4U, 6U, 16U, 21U, 64U}) {
    for (const std::size_t pool : {2U, 3U, 4U, 16U}) {
      SCOPED_TRACE(fmt::format("blocks of {}, pools of {}", block_size, pool));
      const std::size_t keys = kPositions / pool;
      const IndexInputs inputs(keys, 2, 3, kDim);
      KvLayout layout = layout_of(KvType::f32, block_size, kDim);
      layout.index_pool = pool;
      IndexedSequence sequence(layout, kPositions);
      const kernels::PagedCache cache = sequence.cache();
      for (std::size_t key = 0; key < keys; ++key)
        kernels::store_index_key(inputs.key.view().row(key), key, sequence.table(), cache);
      const kernels::OwnedKeys owned(sequence.last(2), cache);
      ASSERT_EQ(owned.size(), keys);
      std::vector<float> scores(2 * keys, NAN);
      const auto threads = static_cast<std::size_t>(omp_get_max_threads());
      std::vector<float> scratch(threads * kernels::index_scratch(layout, 2));
      kernels::index_scores({inputs.query.view(), inputs.weight.view()}, sequence.last(2), owned, cache,
                            {scratch.data(), threads, kernels::index_scratch(layout, 2)},
                            {scores.data(), 2, keys});
      for (std::size_t i = 0; i < scores.size(); ++i) {
        const std::size_t key = i % keys;
        const double expected = reference::index_score({inputs.query.view().row(i / keys), 3 * kDim},
                                                       {inputs.weight.view().row(i / keys), 3},
                                                       {inputs.key.view().row(key), kDim});
        ASSERT_NEAR(scores[i], expected, kScoreTolerance) << i;
        ASSERT_EQ(owned.key(key), key);
        ASSERT_EQ(owned.before(key), key);
      }
    }
  }
}

TEST(IndexKeys, OfPoolsAreSumsByTheSoftmaxOfTheirGates) {
  constexpr std::size_t kPool = 4;
  constexpr std::size_t kDim = 7;
  Random random(3);
  const RandomTensor raw(random, kPool, 2 * kDim, 4);
  const RandomTensor addends(random, kPool, kDim, 2);
  std::vector<kernels::GatedRow> rows;
  for (std::size_t row = 0; row < kPool; ++row)
    rows.push_back({raw.view().row(row), raw.view().row(row) + kDim, addends.view().row(row)});
  std::vector<float> key(kDim);
  kernels::pool_by_gates(rows, key);
  for (std::size_t i = 0; i < kDim; ++i) {
    double sum = 0.0;
    double weighted = 0.0;
    for (std::size_t row = 0; row < kPool; ++row) {
      const double weight = std::exp(double{rows[row].gate[i]} + double{addends.view()(row, i)});
      sum += weight;
      weighted += weight * double{rows[row].key[i]};
    }
    EXPECT_NEAR(key[i], weighted / sum, 1e-5);
  }
}

// A token's scores depend neither on the tokens beside it, nor on the number of threads or the size of
// blocks.
TEST(IndexKeys, HaveScoresWithTheSameBitsInAnyGroup) {
  constexpr std::size_t kPositions = 600;
  const IndexInputs inputs(kPositions, 6, 11, 64);
  // The scores of the last token, computed together with the tokens before it.
  const auto bits_of = [&](std::size_t block_size, std::size_t tokens) {
    const std::vector<float> all =
        scores_of(layout_of(KvType::bf16, block_size, 64), inputs, 6 - tokens, tokens);
    return std::vector<float>(all.end() - kPositions, all.end());
  };
  const std::vector<float> alone = bits_of(32, 1);
  EXPECT_EQ(bits_of(32, 6), alone);
  EXPECT_EQ(bits_of(16, 2), alone);
  EXPECT_EQ(bits_of(7, 3), alone);
  omp_set_num_threads(3);
  EXPECT_EQ(bits_of(32, 4), alone);
  omp_set_num_threads(1);
}

std::vector<std::int32_t> chosen_of(std::vector<float> scores, std::size_t count) {
  std::vector<float> scratch(scores.size());
  std::vector<std::int32_t> chosen(count, -1);
  kernels::choose_highest(scores, scratch, chosen);
  return chosen;
}

TEST(ChooseHighest, EqualsASortWithManyEqualScores) {
  Random random(5);
  for (const std::size_t size : {1U, 2U, 9U, 100U, 1000U}) {
    for (const std::size_t values : {1U, 2U, 7U, 100000U}) {
      std::vector<float> scores(size);
      for (float& score : scores)
        score = static_cast<float>(random.integer(0, values - 1)) - static_cast<float>(values) / 2;
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, size / 2, size - 1, size})
        EXPECT_EQ(chosen_of(scores, count), reference::highest<float>(scores, count)) << size << " " << count;
    }
  }
}

TEST(ChooseHighest, TreatsZerosOfBothSignsAsEqualAndAcceptsNan) {
  EXPECT_EQ(chosen_of({-0.0F, 0.0F, -0.0F, 0.0F}, 2), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(chosen_of({-1.0F, -0.0F, 0.0F, 1.0F, -2.0F}, 2), (std::vector<std::int32_t>{1, 3}));
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(chosen_of({kNan, 1.0F, kNan, -INFINITY, 2.0F}, 5), (std::vector<std::int32_t>{0, 1, 2, 3, 4}));
}

// A sequence of 100 blocks of 3 positions, whose blocks belong to several owners.
struct DividedSequence {
  std::vector<std::int32_t> table;

  explicit DividedSequence(Random& random) : table(100) {
    std::iota(table.begin(), table.end(), 0);
    for (std::size_t i = table.size() - 1; i > 0; --i) std::swap(table[i], table[random.integer(0, i)]);
  }

  std::size_t positions() const { return 3 * table.size() - 1; }
  AttentionSpan span() const { return {0, 1, positions() - 1, table}; }
  kernels::OwnedKeys owned(const kernels::BlockRange& blocks, const std::vector<bool>& wanted = {}) const {
    return {span(), {.layout = {.block_size = 3}, .owned = {&blocks, 1}}, wanted};
  }
};

// Returns the choice from the lists of these blocks' owners.
std::vector<std::int32_t> chosen_by_owners(const DividedSequence& sequence,
                                           const std::vector<kernels::BlockRange>& owners,
                                           const std::vector<float>& scores, std::size_t count) {
  std::vector<std::vector<kernels::ScoredPosition>> lists;
  for (const kernels::BlockRange& blocks : owners) {
    const kernels::OwnedKeys owned = sequence.owned(blocks);
    std::vector<float> own(owned.size());
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = scores[owned.key(i)];
    std::vector<float> scratch(own.size());
    kernels::list_highest(own, owned, scratch, lists.emplace_back(count));
  }
  const std::vector<std::span<const kernels::ScoredPosition>> all(lists.begin(), lists.end());
  std::vector<kernels::ScoredPosition> scratch(lists.size() * count);
  std::vector<std::int32_t> chosen(count, -1);
  kernels::merge_highest(all, scratch, chosen);
  return chosen;
}

TEST(MergeHighest, EqualsTheChoiceFromAllScores) {
  Random random(8);
  const DividedSequence sequence(random);
  const std::vector<std::vector<kernels::BlockRange>> divisions = {
      {{0, 100}}, {{0, 50}, {50, 100}}, {{0, 1}, {1, 1}, {1, 99}, {99, 100}}, {{60, 100}, {0, 30}, {30, 60}}};
  for (const std::size_t values : {1U, 2U, 7U, 100000U}) {
    std::vector<float> scores(sequence.positions());
    for (float& score : scores)
      score = static_cast<float>(random.integer(0, values - 1)) - static_cast<float>(values) / 2;
    scores[100] = -0.0F;
    scores[200] = 0.0F;
    for (const std::size_t count : {1U, 2U, 30U, 150U, 298U}) {
      const std::vector<std::int32_t> expected = reference::highest<float>(scores, count);
      for (const auto& owners : divisions)
        EXPECT_EQ(chosen_by_owners(sequence, owners, scores, count), expected) << values << " " << count;
    }
  }
}

// Expects these keys to be numbered, and no others.
void expect_keys(const DividedSequence& sequence, const kernels::OwnedKeys& owned,
                 const std::function<bool(std::size_t)>& has_block) {
  std::size_t count = 0;
  for (std::size_t position = 0; position < sequence.positions(); ++position) {
    EXPECT_EQ(owned.before(position), count) << position;
    if (!has_block(position / 3)) continue;
    EXPECT_EQ(owned.key(count), position);
    ++count;
  }
  EXPECT_EQ(owned.before(sequence.positions()), count);
  EXPECT_EQ(owned.size(), count);
}

TEST(OwnedKeys, AreCountedUpToAnyPosition) {
  Random random(9);
  const DividedSequence sequence(random);
  const kernels::BlockRange blocks{20, 70};
  expect_keys(sequence, sequence.owned(blocks), [&](std::size_t block) {
    return blocks.contains(static_cast<std::size_t>(sequence.table[block]));
  });
}

TEST(OwnedKeys, LeaveOutBlocksThatAreNotWanted) {
  Random random(10);
  const DividedSequence sequence(random);
  const kernels::BlockRange blocks{20, 70};
  std::vector<bool> wanted(sequence.table.size());
  for (std::size_t block = 0; block < wanted.size(); ++block) wanted[block] = random.integer(0, 3) == 0;
  expect_keys(sequence, sequence.owned(blocks, wanted), [&](std::size_t block) {
    return wanted[block] && blocks.contains(static_cast<std::size_t>(sequence.table[block]));
  });
  wanted.assign(wanted.size(), false);
  expect_keys(sequence, sequence.owned(blocks, wanted), [](std::size_t) { return false; });
}

// Returns blocks with only the latents of these tokens, in memory that contains `before`.
std::vector<std::byte> blocks_with(const KvLayout& layout, const RandomTensor& key, const RandomTensor& value,
                                   std::span<const std::int32_t> tokens, std::byte before) {
  std::vector<float> keys;
  std::vector<float> values;
  for (const std::int32_t token : tokens) {
    const auto row = static_cast<std::size_t>(token);
    keys.insert(keys.end(), key.view().row(row), key.view().row(row) + layout.stored_key_dim());
    values.insert(values.end(), value.view().row(row), value.view().row(row) + layout.value_dim);
  }
  std::vector<std::int32_t> table((tokens.size() + layout.block_size - 1) / layout.block_size);
  std::iota(table.begin(), table.end(), 0);
  std::vector<std::byte> memory(table.size() * layout.block_bytes(), before);
  const AttentionSpan span{0, tokens.size(), 0, table};
  kernels::store_keys_values({keys.data(), tokens.size(), layout.stored_key_dim()},
                             {values.data(), tokens.size(), layout.value_dim}, {&span, 1},
                             {layout, memory.data(), layout.block_bytes()});
  return memory;
}

TEST(CopyLatents, CopiesOnlyTheChosenTokens) {
  const std::vector<std::int32_t> chosen = {0, 1, 4, 7, 8, 17, 31, 32, 33, 60, 61, 88, 89};
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    for (const std::size_t block_size : {1U, 2U, 5U, 16U, 32U}) {
      SCOPED_TRACE(fmt::format("blocks of {}", block_size));
      const KvLayout layout = layout_of(type, block_size, 16);
      Random random(block_size);
      const RandomTensor key(random, 90, layout.stored_key_dim());
      const RandomTensor value(random, 90, layout.value_dim);
      IndexedSequence sequence(layout, 90);
      const AttentionSpan all = sequence.all();
      kernels::store_keys_values(key.view(), value.view(), {&all, 1}, sequence.cache());
      KvLayout plain = layout;
      plain.index_dim = 0;
      const std::vector<std::byte> expected = blocks_with(plain, key, value, chosen, std::byte{0});
      std::vector<std::byte> copied(expected.size() + plain.block_bytes(), std::byte{0});
      kernels::copy_latents(sequence.cache(), sequence.table(), chosen,
                            {plain, copied.data(), plain.block_bytes()}, {.first_block = 1});
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                             copied.begin() + static_cast<std::ptrdiff_t>(plain.block_bytes())));
    }
  }
}

// Attention multiplies the rows after the last one by weights of zero, in pairs.
TEST(CopyLatents, ClearsTheRowsAfterTheLastOneOfABlock) {
  const std::vector<std::int32_t> chosen = {3, 4, 9};
  for (const std::size_t block_size : {3U, 8U}) {
    const KvLayout layout = layout_of(KvType::bf16, block_size, 16);
    Random random(block_size);
    const RandomTensor key(random, 10, layout.stored_key_dim());
    const RandomTensor value(random, 10, layout.value_dim);
    IndexedSequence sequence(layout, 10);
    const AttentionSpan all = sequence.all();
    kernels::store_keys_values(key.view(), value.view(), {&all, 1}, sequence.cache());
    KvLayout plain = layout;
    plain.index_dim = 0;
    std::vector<std::byte> copied(plain.block_bytes(), std::byte{0xff});
    kernels::copy_latents(sequence.cache(), sequence.table(), chosen,
                          {plain, copied.data(), plain.block_bytes()}, {});
    EXPECT_EQ(copied, blocks_with(plain, key, value, chosen, std::byte{0}));
  }
}

}  // namespace
}  // namespace tp

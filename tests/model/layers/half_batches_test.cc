#include "model/layers/half_batches.h"

#include <random>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr std::size_t kGroups = 2;

struct RandomBatch {
  explicit RandomBatch(unsigned seed) : random(seed) {
    tables.resize(kGroups * 8, std::vector<std::int32_t>(20));
    for (std::int32_t next = 0; auto& table : tables) {
      for (std::int32_t& block : table) block = next++;
    }
    batch.spans.resize(kGroups);
    const std::size_t sequences = up_to(1, 8);
    for (std::size_t i = 0; i < sequences; ++i) append(i);
    for (std::size_t row = 0; row < batch.tokens.size(); ++row) {
      if (up_to(0, 3) == 0) batch.output_rows.push_back(row);
      if (up_to(0, 5) == 0) batch.hidden_rows.push_back(row);
    }
  }

  std::size_t up_to(std::size_t min, std::size_t max) {
    return std::uniform_int_distribution<std::size_t>(min, max)(random);
  }

  void append(std::size_t sequence) {
    const std::size_t tokens = up_to(0, 1) == 0 ? 1 : up_to(1, 60);
    const std::size_t start = up_to(0, 100);
    for (std::size_t group = 0; group < kGroups; ++group) {
      batch.spans[group].push_back({.first_token = batch.tokens.size(),
                                    .tokens = tokens,
                                    .start_position = start,
                                    .block_table = tables[group * 8 + sequence]});
    }
    StateSpan& state = batch.states.emplace_back();
    state.slot = 100 + sequence;
    for (std::size_t token = 1; token <= tokens; ++token) {
      if (up_to(0, 9) == 0) state.saves.push_back({token, 200 + up_to(0, 99)});
    }
    for (std::size_t i = 0; i < tokens; ++i) {
      batch.tokens.push_back(static_cast<TokenId>(up_to(0, 1000)));
      batch.positions.push_back(start + i);
      batch.types.push_back(static_cast<std::uint8_t>(up_to(0, 1)));
    }
  }

  std::mt19937 random;
  std::vector<std::vector<std::int32_t>> tables;
  Batch batch;
};

template <class T>
std::vector<T> joined(std::vector<T> first, const std::vector<T>& second, T offset = 0) {
  for (const T& value : second) first.push_back(static_cast<T>(value + offset));
  return first;
}

// A token's place in a batch: its position, and the destination of its keys and values.
struct Place {
  std::size_t position = 0;
  const std::int32_t* table = nullptr;
  std::size_t state = 0;
  bool operator==(const Place&) const = default;
};

std::vector<Place> places(const Batch& batch, std::size_t group) {
  std::vector<Place> all;
  for (std::size_t i = 0; i < batch.spans[group].size(); ++i) {
    const kernels::AttentionSpan& span = batch.spans[group][i];
    EXPECT_EQ(span.first_token, all.size());
    EXPECT_GT(span.tokens, 0U);
    for (std::size_t token = 0; token < span.tokens; ++token)
      all.push_back({span.start_position + token, span.block_table.data(), batch.states[i].slot});
  }
  EXPECT_EQ(all.size(), batch.tokens.size());
  return all;
}

// Saved states as (batch row after which the state is saved, slot).
using Saves = std::vector<std::pair<std::size_t, std::size_t>>;
Saves saves(const Batch& batch, std::size_t first_row = 0) {
  Saves all;
  for (std::size_t i = 0; i < batch.states.size(); ++i) {
    const kernels::AttentionSpan& span = batch.spans.front()[i];
    for (const StateSpan::Save& save : batch.states[i].saves) {
      EXPECT_GE(save.tokens, 1U);
      EXPECT_LE(save.tokens, span.tokens);
      all.emplace_back(first_row + span.first_token + save.tokens, save.slot);
    }
  }
  return all;
}

TEST(HalvesOf, TogetherEqualTheWhole) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const RandomBatch random(seed);
    const Batch& whole = random.batch;
    const std::optional<HalfBatches> halves = halves_of(whole);
    if (whole.tokens.size() < 2) continue;
    ASSERT_TRUE(halves.has_value()) << seed;
    const auto& [first, second] = *halves;
    const std::size_t cut = first.tokens.size();
    EXPECT_EQ(cut, larger_half(whole.tokens.size()));
    EXPECT_GT(second.tokens.size(), 0U);
    EXPECT_EQ(joined(first.tokens, second.tokens), whole.tokens);
    EXPECT_EQ(joined(first.positions, second.positions), whole.positions);
    EXPECT_EQ(joined(first.types, second.types), whole.types);
    EXPECT_EQ(joined(first.output_rows, second.output_rows, cut), whole.output_rows);
    EXPECT_EQ(joined(first.hidden_rows, second.hidden_rows, cut), whole.hidden_rows);
    for (std::size_t group = 0; group < kGroups; ++group) {
      std::vector<Place> both = places(first, group);
      const std::vector<Place> rest = places(second, group);
      both.insert(both.end(), rest.begin(), rest.end());
      EXPECT_EQ(both, places(whole, group)) << seed;
    }
    Saves both = saves(first);
    const Saves rest = saves(second, cut);
    both.insert(both.end(), rest.begin(), rest.end());
    EXPECT_EQ(both, saves(whole)) << seed;
  }
}

TEST(HalvesOf, AreAboutEquallyLargeAndTheFirstIsNotTheSmallerOne) {
  std::size_t before = 0;
  for (std::size_t tokens = 2; tokens < 5000; ++tokens) {
    const std::size_t larger = larger_half(tokens);
    EXPECT_GE(2 * larger, tokens);
    EXPECT_LE(2 * larger, tokens + 32);
    EXPECT_LT(larger, tokens);
    EXPECT_GE(larger, before) << "a workspace for more tokens has room for fewer";
    before = larger;
  }
}

TEST(HalvesOf, DoNotExistIfATokenMayDependOnALaterToken) {
  const std::vector<std::int32_t> table(10);
  Batch plain;
  plain.tokens.resize(40);
  plain.positions.resize(40);
  plain.spans = {{{.first_token = 0, .tokens = 40, .start_position = 0, .block_table = table}}};
  EXPECT_TRUE(halves_of(plain).has_value());
  Batch batch = plain;
  batch.spans[0][0].bidirectional = true;
  EXPECT_FALSE(halves_of(batch).has_value());
  batch = plain;
  batch.spans[0][0].causal_block = 4;
  EXPECT_FALSE(halves_of(batch).has_value());
  batch = plain;
  batch.spans[0][0].context = 30;
  EXPECT_FALSE(halves_of(batch).has_value());
  batch = plain;
  batch.is_global.assign(40, 0);
  EXPECT_FALSE(halves_of(batch).has_value());
  batch = plain;
  batch.inputs = std::make_shared<Batch>();
  EXPECT_FALSE(halves_of(batch).has_value());
  batch = plain;
  batch.contexts = batch.spans[0];
  EXPECT_FALSE(halves_of(batch).has_value());
}

TEST(HalvesOf, DoNotExistForUnorderedOutputsOrASingleToken) {
  const std::vector<std::int32_t> table(10);
  Batch batch;
  batch.tokens.resize(40);
  batch.positions.resize(40);
  batch.spans = {{{.first_token = 0, .tokens = 40, .start_position = 0, .block_table = table}}};
  batch.output_rows = {30, 2};
  EXPECT_FALSE(halves_of(batch).has_value());
  batch.output_rows = {2, 2, 30};
  EXPECT_TRUE(halves_of(batch).has_value());
  batch = {};
  batch.tokens.resize(1);
  batch.positions.resize(1);
  batch.spans = {{{.first_token = 0, .tokens = 1, .start_position = 5, .block_table = table}}};
  EXPECT_FALSE(halves_of(batch).has_value());
}

}  // namespace
}  // namespace tp
